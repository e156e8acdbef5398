"""Files for the host of the project parse, call make targets that exist, and name the Python versions of pyproject.toml."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOW = ROOT / ".github/workflows/ci.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"


def parsed(file: Path) -> dict[Any, Any]:
    content = yaml.safe_load(file.read_text())
    assert isinstance(content, dict)
    return content


def steps() -> list[dict[str, Any]]:
    return [step for job in parsed(WORKFLOW)["jobs"].values() for step in job["steps"]]


def test_the_workflow_calls_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    called = {step["run"] for step in steps() if "run" in step}
    assert called == {f"make {target}" for target in ("lint", "test", "docs", "wheel", "lowest")}
    assert {command.removeprefix("make ") for command in called} <= targets


def test_the_oldest_supported_python_is_tested() -> None:
    oldest, newest = parsed(WORKFLOW)["jobs"]["test"]["strategy"]["matrix"]["python-version"]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert tuple(map(int, newest.split("."))) > tuple(map(int, oldest.split(".")))
    versions = {step["with"]["python-version"] for step in steps() if "python-version" in step.get("with", {})}
    assert versions == {oldest, "${{ matrix.python-version }}"}


def test_the_workflow_needs_no_secret_and_may_only_read() -> None:
    assert "secrets." not in WORKFLOW.read_text()
    assert parsed(WORKFLOW)["permissions"] == {"contents": "read"}


def test_files_that_decide_about_caches_exist() -> None:
    for step in steps():
        for name in step.get("with", {}).get("cache-dependency-path", "").split():
            assert (ROOT / name).is_file()


@pytest.mark.parametrize("file", sorted((ROOT / ".github/ISSUE_TEMPLATE").iterdir()), ids=lambda file: file.name)
def test_issue_templates_have_what_the_host_asks_for(file: Path) -> None:
    template = parsed(file)
    assert template["name"]
    assert template["description"]
    names = [field["id"] for field in template["body"]]
    assert len(set(names)) == len(names)
    assert all(field["attributes"]["label"] for field in template["body"])


def hook(name: str) -> dict[str, Any]:
    (repository,) = parsed(HOOKS)["repos"]
    assert repository["repo"] == "local"  # nothing is downloaded
    found = [one for one in repository["hooks"] if one["id"] == name]
    assert len(found) == 1
    return found[0]


def test_hooks_run_tools_of_the_development_extra() -> None:
    installed = {re.split(r"[>=\[]", requirement)[0] for requirement in PROJECT["project"]["optional-dependencies"]["dev"]}
    for name, tool in (("ruff-check", "ruff"), ("ruff-format", "ruff"), ("mypy", "mypy")):
        assert hook(name)["entry"].startswith(f".venv/bin/python -m {tool}")
        assert tool in installed
    assert "pre-commit" in installed


def run_hook(name: str, file: Path) -> subprocess.CompletedProcess[str]:
    command = hook(name)["entry"].replace(".venv/bin/python", sys.executable)
    return subprocess.run(["sh", "-c", f'{command} "$@"', "hook", str(file)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [("end-of-file", b"text\n", b"text"), ("large-files", b"x", bytes((1 << 20) + 1024))],
    ids=["end of file", "large"],
)
def test_checks_of_files_find_what_they_look_for(name: str, good: bytes, bad: bytes, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(good)
    (tmp_path / "bad").write_bytes(bad)
    assert run_hook(name, tmp_path / "good").returncode == 0
    refused = run_hook(name, tmp_path / "bad")
    assert refused.returncode != 0
    assert "bad" in refused.stdout + refused.stderr


def extras() -> dict[str, list[str]]:
    found: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    return found


def test_the_extra_all_is_all() -> None:
    (every,) = extras()["all"]
    named = set(re.fullmatch(r"gar\[(.*)\]", every)[1].split(","))  # type: ignore[index]
    assert named == set(extras()) - {"all", "dev", "docs", "test"}


def test_extras_are_explained() -> None:
    table = (ROOT / "docs/install.md").read_text().partition("## Extras")[2].partition("\n## ")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.partition(" | ")[0])}
    assert set(extras()) <= named


def test_nobody_is_sent_to_another_package_of_this_name() -> None:
    """Package indexes may have another gar: instructions name a clone or a wheel."""
    pages = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)]
    for file in [*pages, *(ROOT / "src").rglob("*.py"), *(ROOT / "reproduction").rglob("*.py")]:
        assert not re.search(r"""pip install ["']?gar(?![-\w])""", file.read_text()), file


@pytest.mark.parametrize(
    "project", [ROOT / "pyproject.toml", ROOT / "reproduction/pyproject.toml"], ids=lambda path: path.parent.name
)
def test_metadata_name_files_that_exist(project: Path) -> None:
    metadata = tomllib.loads(project.read_text())["project"]
    for name in [metadata["readme"], *metadata["license-files"]]:
        assert (project.parent / name).is_file()
