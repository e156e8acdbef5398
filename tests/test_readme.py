"""Every block of Python in the README and in docs/ runs as it stands."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    exec(compile(block, "block", "exec"), {"__name__": "block"})


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    assert BLOCKS
