"""``gar predict`` on files that spell things otherwise than the table which the model was trained on."""

import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from gar.app.commands.compare import compare
from gar.app.commands.predict import predict
from gar.app.compare import Options, compare_table, source_of_file
from gar.app.models import load_model
from gar.search import RunContext

QUICK = Options(losses=("mae",), epochs=2, learning_rates=(0.02,), weight_decays=(1e-3,), hidden_sizes=(8,), folds=2)


def trained(folder: Path, columns: dict[str, object]) -> Path:
    """The model of a table with these columns, a number and a label, written as CSV."""
    table = pd.DataFrame({**columns, "x": np.sin(np.arange(48)), "y": np.arange(48) % 7})
    table.to_csv(folder / "table.csv", index=False)
    model = compare_table(source_of_file(folder / "table.csv", targets=["y"]), QUICK, RunContext(workers=1)).model
    assert model is not None
    model.save(folder / "model")
    return folder / "model"


def predicted(model: Path, content: str, *options: str) -> Result:
    path = model.parent / "new.csv"
    path.write_text(content)
    result = CliRunner().invoke(predict, [str(model), str(path), *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result


def numbers(result: Result) -> list[str]:
    return result.stdout.splitlines()[1:]


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("grades"), {"grade": [*"K123"] * 12, "code": ["01", "02", "0A"] * 16})


def test_a_blank_does_not_change_what_the_others_are(grades: Path) -> None:
    """Pandas alone would read 1 and 3 as 1.0 and 3.0 where a blank is among them, and 01 as 1."""
    without = predicted(grades, "grade,code,x\n1,01,0\n3,02,0\n")
    with_blank = predicted(grades, "grade,code,x\n1,01,0\n3,02,0\n,,0\n")
    among_text = predicted(grades, "grade,code,x\n1,01,0\n3,02,0\nK,0A,0\n")
    assert numbers(without) == numbers(with_blank)[:2] == numbers(among_text)[:2]
    assert numbers(without)[0] != numbers(without)[1]
    assert without.stderr == with_blank.stderr == among_text.stderr == ""


def test_categories_that_the_model_does_not_know_are_told(grades: Path) -> None:
    result = predicted(grades, "grade,code,x\n1,1,0\n7,1,0\n8,02,0\n")
    assert result.stderr.splitlines() == [
        "Note: column 'grade' holds a category that is not known to the model in 2 of 3 rows, such as '7'",
        "Note: column 'code' holds a category that is not known to the model in 2 of 3 rows, such as '1'",
    ]


def test_workbooks_and_numbers_with_a_zero_behind_the_point_are_the_same_categories(grades: Path) -> None:
    csv = predicted(grades, "grade,code,x\n1,01,0\n3,02,0\n")
    assert numbers(predicted(grades, "grade,code,x\n1.0,01,0\n3.0,02,0\n")) == numbers(csv)
    book = grades.parent / "new.xlsx"
    pd.DataFrame({"grade": [1, 3, None], "code": ["01", "02", "0A"], "x": 0}).to_excel(book, index=False)
    result = CliRunner().invoke(predict, [str(grades), str(book)], catch_exceptions=False)
    assert numbers(result)[:2] == numbers(csv)
    assert result.stderr == ""


def test_true_and_false_with_a_blank_among_them(tmp_path: Path) -> None:
    model = trained(tmp_path, {"flag": [True, False] * 24, "asked": [True, False, None, True] * 12})
    whole = predicted(model, "flag,asked,x\nTrue,False,0\nFalse,True,0\n")
    assert numbers(predicted(model, "flag,asked,x\nTrue,False,0\nFalse,True,0\n,,0\n"))[:2] == numbers(whole)
    assert numbers(predicted(model, "flag,asked,x\nTRUE,FALSE,0\nfalse,true,0\n,,0\n"))[:2] == numbers(whole)
    assert numbers(predicted(model, "flag,asked,x\n1,FALSE,0\n0,TRUE,0\n")) == numbers(whole)


def test_with_or_without_an_index_that_was_written_along(tmp_path: Path) -> None:
    table = pd.DataFrame({"x": np.sin(np.arange(48)), "y": np.arange(48) % 7})
    table.to_csv(tmp_path / "table.csv")
    model = compare_table(source_of_file(tmp_path / "table.csv", targets=["y"]), QUICK, RunContext(workers=1)).model
    assert model is not None
    model.save(tmp_path / "model")
    without = predicted(tmp_path / "model", "x\n0.5\n0.25\n")
    assert numbers(predicted(tmp_path / "model", ",x\n7,0.5\n3,0.25\n")) == numbers(without)


def test_delimiter_and_encoding_can_be_named(grades: Path) -> None:
    plain = predicted(grades, "grade,code,x\n1,01,0.5\n")
    assert numbers(predicted(grades, "grade:code:x\n1:01:0.5\n", "--delimiter", ":")) == numbers(plain)
    commas = predicted(grades, "grade\tcode\tx\n1\t01\t0,5\n", "--delimiter", "tab", "--encoding", "cp1252")
    assert numbers(commas) == numbers(plain)
    assert commas.stderr == "Note: numbers are read with decimal commas, 1,5 as 1.5\n"


def test_out_may_be_standard_output_a_pipe_or_a_link(grades: Path, tmp_path: Path) -> None:
    rows = "grade,code,x\n1,01,0.5\n"
    printed = predicted(grades, rows).stdout
    assert predicted(grades, rows, "--out", "-").stdout == printed
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "file")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert predicted(grades, rows, "--out", str(pipe)).stdout == f"1 predictions: {pipe}\n"
        assert os.read(reader, 9999).decode() == printed
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    predicted(grades, rows, "--out", str(link))
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == printed


@pytest.mark.parametrize("named", ["", "model"])
def test_what_a_killed_comparison_had_left_to_move_is_moved_first(grades: Path, tmp_path: Path, named: str) -> None:
    old, new = (replace(load_model(grades), targets=[name]) for name in ("old", "new"))
    old.save(tmp_path / "model")
    new.save(tmp_path / ".gar-complete" / "model")
    (tmp_path / "new.csv").write_text("grade,code,x\n1,01,0.5\n")
    result = CliRunner().invoke(predict, [str(tmp_path / named), str(tmp_path / "new.csv")], catch_exceptions=False)
    assert result.stdout.startswith("new\n")


@pytest.mark.parametrize("name", ['=HYPERLINK("http://a.test";"b")', "+1", "-1", "@SUM(1)", "\ty"])
def test_a_name_that_is_a_formula_is_text_in_the_header(grades: Path, tmp_path: Path, name: str) -> None:
    replace(load_model(grades), targets=[name]).save(tmp_path / "model")
    header = pd.read_csv(io.StringIO(predicted(tmp_path / "model", "grade,code,x\n1,01,0.5\n").stdout)).columns
    assert list(header) == [f"'{name}"]


def test_a_folder_that_is_not_there_is_named_before_anything_is_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(predict, ["no model", "no data.csv", "--out", str(tmp_path / "nodir" / "p.csv")])
    assert result.exit_code == 2
    assert "nodir' does not exist; make it, or name another." in " ".join(result.stderr.split())


def test_compare_takes_delimiter_and_encoding_for_files_alone() -> None:
    for data, expected in [((), "name a file"), (("diabetes",), "whose files are known")]:
        result = CliRunner().invoke(compare, [*data, "--delimiter", ";"])
        assert result.exit_code == 2
        assert expected in result.stderr


def test_columns_are_kept_beside_the_predictions(grades: Path) -> None:
    plain = predicted(grades, "grade,code,x\n1,01,0.5\n3,02,0.25\n")
    kept = predicted(grades, "id,grade,code,x\nn7,1,01,0.5\nn8,3,02,0.25\n", "--keep", "id,grade")
    assert kept.stdout.splitlines()[0] == "id,grade,y"
    assert [line.split(",")[2] for line in numbers(kept)] == numbers(plain)
    assert [line.split(",")[0] for line in numbers(kept)] == ["n7", "n8"]
    (grades.parent / "new.csv").write_text("id,grade,code,x,y\na,1,01,0.5,1\n")
    for wanted, answer in (("ident", "keep 'ident' is not a column of the table"), ("y", "the predictions are called 'y'")):
        result = CliRunner().invoke(predict, [str(grades), str(grades.parent / "new.csv"), "--keep", wanted])
        assert answer in str(result.exception)


def test_rows_with_labels_are_scored(grades: Path) -> None:
    result = predicted(grades, "grade,code,x,y\n1,01,0.5,3\n3,02,0.25,\nK,0A,0,5\n")
    values = np.array(numbers(result), dtype=float)
    expected = np.abs(values[[0, 2]] - [3, 5]).mean()
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Note: 2 rows have a label of 'y': MAE {expected:.3g}")
    assert predicted(grades, "grade,code,x,y\n1,01,0.5,many\n").stderr == ""


def test_rows_outside_of_training_are_counted(grades: Path) -> None:
    result = predicted(grades, "grade,code,x\n1,01,0.5\n1,01,7\n1,01,-9\n")
    assert result.stderr.splitlines() == [
        "Note: 2 of 3 rows lie outside of what the model was trained on, most by 'x' (2): their predictions are extrapolations"
    ]


def test_an_absent_column_is_filled_on_request(grades: Path) -> None:
    blank = predicted(grades, "grade,code,x\n1,,0.5\n")
    assert numbers(predicted(grades, "grade,x\n1,0.5\n", "--fill", "code")) == numbers(blank)
    assert numbers(predicted(grades, "grade,code,x\n1,,0.5\n", "--fill", "code")) == numbers(blank)
    (grades.parent / "new.csv").write_text("grade,x\n1,0.5\n")
    without = CliRunner().invoke(predict, [str(grades), str(grades.parent / "new.csv")])
    assert "the table lacks 'code'" in str(without.exception)
    wrong = CliRunner().invoke(predict, [str(grades), str(grades.parent / "new.csv"), "--fill", "cod"])
    assert "fill 'cod' is not a column of the table; did you mean 'code'?" in str(wrong.exception)
