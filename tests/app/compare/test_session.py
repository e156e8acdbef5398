"""A comparison leaves its report, records and model in a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from gar.app.compare import compare_and_report, source_of_frame
from gar.app.compare.session import Report
from gar.app.models import load_model
from gar.errors import InputError
from gar.search import RunContext
from tests.app.compare.example import QUICK, diabetes

SHORT = replace(QUICK, losses=("mae",), epochs=1, folds=2, learning_rates=(1e-2,))


def table(out: Path) -> Report:
    source = source_of_frame(diabetes(), targets=["target"], drop=["clinic", "double"])
    return compare_and_report([source], SHORT, RunContext(), out=out, command="gar compare")


def curve(out: Path) -> Report:
    return compare_and_report(["sine"], SHORT, RunContext(), out=out, command="gar compare sine")


def test_a_comparison_without_a_model_leaves_no_older_one(tmp_path: Path) -> None:
    assert table(tmp_path).model == tmp_path / "model"
    assert (tmp_path / "model" / "weights.safetensors").exists()
    assert curve(tmp_path).model is None
    assert not (tmp_path / "model").exists()
    assert table(tmp_path).model == tmp_path / "model"
    load_model(tmp_path / "model")


def test_other_files_beside_an_older_model_are_kept(tmp_path: Path) -> None:
    table(tmp_path)
    (tmp_path / "model" / "notes.txt").write_text("mine")
    curve(tmp_path)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("text", ['{"format": 1}', "no JSON", "[1]"])
def test_what_is_no_model_of_gar_is_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text(text)
    (tmp_path / "model" / "trees-of-mine").write_text("oak")
    curve(tmp_path)
    assert (tmp_path / "model" / "model.json").read_text() == text
    assert (tmp_path / "model" / "trees-of-mine").read_text() == "oak"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody may write")
def test_a_folder_that_cannot_be_written_to_is_named_without_words_of_the_library() -> None:
    with pytest.raises(InputError, match=r"'/proc/self/out/records', where records .*; choose another folder") as raised:
        curve(Path("/proc/self/out"))
    assert "records=" not in str(raised.value)
