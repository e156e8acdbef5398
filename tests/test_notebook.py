"""The notebook of the documentation runs from top to bottom, and the outputs stored in it are those of its code."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.outputs import without_numbers

NOTEBOOK = Path(__file__).parent.parent / "docs/tutorials/tour.ipynb"
CELLS: list[dict[str, Any]] = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def stored_text(cell: dict[str, Any]) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the extra 'app' is not installed: no figures to draw")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", pyplot.close)
    names: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(CELLS, 1):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("".join(cell["source"]), f"cell {number} of {NOTEBOOK.name}", "exec"), names)
        assert without_numbers(printed.getvalue()) == without_numbers(stored_text(cell))


def test_it_was_stored_as_it_ran_from_top_to_bottom() -> None:
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    kinds = {output["output_type"] for cell in CELLS for output in cell["outputs"]}
    assert kinds == {"stream", "display_data"}
    assert all(cell["outputs"] for cell in CELLS)
