"""Tables are read from every format, and other files are refused in one line."""

import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from gar.app.tables import read_table, read_with_notes
from gar.errors import InputError

FRAME = pd.DataFrame({"size": [1.5, 2.25, -3.0], "colour": ["red", "blue", "red"], "count": [1, 2, 3]})
ARFF = """% a comment
@relation things
@attribute size numeric
@attribute 'the colour' {red, 'dark blue'}
@attribute name string
@data
1.5,red,one
?,'dark blue','number two'
2.5,?,three
"""


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


def workbook(path: Path, rows: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", lambda path: FRAME.to_csv(path, index=False)),
        ("semicolons.csv", lambda path: FRAME.to_csv(path, index=False, sep=";")),
        ("comma_decimals.csv", lambda path: FRAME.to_csv(path, index=False, sep=";", decimal=",")),
        ("tabs.tsv", lambda path: FRAME.to_csv(path, index=False, sep="\t")),
        ("bars.txt", lambda path: FRAME.to_csv(path, index=False, sep="|")),
        ("spaces.data", lambda path: FRAME.to_csv(path, index=False, sep=" ")),
        ("packed.csv.gz", lambda path: FRAME.to_csv(path, index=False)),
        ("utf16.csv", lambda path: FRAME.to_csv(path, index=False, encoding="utf-16")),
        ("bom.CSV", lambda path: FRAME.to_csv(path, index=False, encoding="utf-8-sig")),
        ("crlf.csv", lambda path: FRAME.to_csv(path, index=False, lineterminator="\r\n")),
        ("a.parquet", lambda path: FRAME.to_parquet(path)),
        ("a.xlsx", lambda path: FRAME.to_excel(path, index=False)),
    ],
)
def test_every_format_gives_the_same_table(name: str, write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME, check_dtype=False)


def test_arff_with_missing_values(tmp_path: Path) -> None:
    for path in (written(tmp_path / "a.arff", ARFF), written(tmp_path / "a.arff.gz", gzip.compress(ARFF.encode()))):
        frame = read_table(path)
        assert list(frame.columns) == ["size", "the colour", "name"]
        assert frame["size"].tolist()[::2] == [1.5, 2.5]
        assert frame.isna().to_numpy().tolist() == [[False, False, False], [True, False, False], [False, True, False]]
        assert frame.iloc[1, 1:].tolist() == ["dark blue", "number two"]


def test_xls_of_the_real_thing(data_home: Path) -> None:
    path = data_home / "concrete" / "Concrete_Data.xls"
    if not path.is_file():
        pytest.skip("Concrete_Data.xls is not in the data folder")
    frame = read_table(path)
    assert frame.shape == (1030, 9)
    assert (frame.dtypes == np.float64).sum() >= 8


def test_npz_of_features_and_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.arange(6.0).reshape(3, 2), y=np.array([1, 2, 3]), colour=np.array(["r", "g", "b"]))
    frame = read_table(tmp_path / "a.npz")
    assert list(frame.columns) == ["X0", "X1", "y", "colour"]
    assert frame["X1"].tolist() == [1, 3, 5]


def test_parquet_keeps_an_index_with_a_name_and_drops_one_without(tmp_path: Path) -> None:
    FRAME.set_index("colour").to_parquet(tmp_path / "named.parquet")
    FRAME.set_index(["colour", "count"]).to_parquet(tmp_path / "two.parquet")
    assert sorted(read_table(tmp_path / "two.parquet").columns) == sorted(FRAME.columns)
    FRAME.set_axis([5, 7, 9]).to_parquet(tmp_path / "nameless.parquet")
    assert sorted(read_table(tmp_path / "named.parquet").columns) == sorted(FRAME.columns)
    pd.testing.assert_frame_equal(read_table(tmp_path / "nameless.parquet"), FRAME, check_dtype=False)


def test_dates_and_gaps_of_a_workbook(tmp_path: Path) -> None:
    day = pd.Timestamp("2024-05-31")
    path = workbook(tmp_path / "a.xlsx", [["when", None, "x"], [day.to_pydatetime(), None, 1], [None, None, 2], [], [None, 7]])
    frame = read_table(path)
    assert list(frame.columns) == ["when", "column 2", "x"]
    assert frame["when"][0] == day
    assert frame["x"].tolist()[:2] == [1, 2]
    assert len(frame) == 3


def test_old_western_encoding(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path / "a.csv", "größe,farbe\n1,grün\n".encode("cp1252")))
    assert frame["farbe"][0] == "grün"


@pytest.mark.parametrize(
    ("content", "a", "b"),
    [
        ('"a";"b"\n"1,26";"0"\n"-2,5";"1"\n', [1.26, -2.5], [0, 1]),
        ('a,b\n"1,26",0\n"2",1.5\n', [1.26, 2], [0, 1.5]),
        ("a;b\n" + "3;1\n" * 150 + "1,26;2\n", [3] * 150 + [1.26], [1] * 150 + [2]),
        ("a;b\n+1,26;0\n+1,05;1\n", [1.26, 1.05], [0, 1]),
        ("a;b\n1.000;1,26\n2.500;3\n", [1000, 2500], [1.26, 3]),
        ("a;b\n1.234,5;0,26\n-1.234.567,25;\n", [1234.5, -1234567.25], [0.26, np.nan]),
        ("a;b\n1,234;0.125\n2,5;1.000\n", [1.234, 2.5], [0.125, 1]),
        ("a\tb\n1,5e3\t1.5\n2\t2.5\n", [1500, 2], [1.5, 2.5]),
    ],
)
def test_decimal_commas_and_thousands_separators(content: str, a: list[float], b: list[float], tmp_path: Path) -> None:
    frame = read_table(written(tmp_path / "a.csv", content))
    np.testing.assert_array_equal(frame.to_numpy(np.float64), np.column_stack([a, b]))


def test_decimal_commas_are_noted(tmp_path: Path) -> None:
    decimal = "numbers are read with decimal commas, 1,5 as 1.5"
    thousands = "points are read as thousands separators, 1.234 as 1234 (1 column): 'a'"
    for content, notes in [
        ("a;b\n1.000;1,5\n2;3\n", (decimal, thousands)),
        ("a;b\n1;1,5\n2;3\n", (decimal,)),
        ("a;b\n1;1.5\n2;3\n", ()),
    ]:
        assert read_with_notes(written(tmp_path / "a.csv", content))[1] == notes


def test_decimal_commas_beside_marks_of_missing_numbers(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path / "a.csv", "a;b\n1,26;x\n-;y\n1.000;z\n;w\n"))
    assert frame["a"].tolist()[:3] == ["1.26", "-", "1000"]
    assert frame["b"].tolist() == [*"xyzw"]


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ('a,b\n"1,234",0\n"12,000",1\n', ["1,234", "12,000"]),  # thousands, or thousandths
        ("a;b\n1,234;0.5\n2,000;1\n", ["1,234", "2,000"]),
        ('a,b\n"1,5 or 2",0\n"about 3",1\n', ["1,5 or 2", "about 3"]),
        ("a;b\n31.05.2024;1,5\n01.06.2024;2,5\n", ["31.05.2024", "01.06.2024"]),
        ('a,b\n"1,2,3",0\n"4,5",1\n', ["1,2,3", "4,5"]),
    ],
)
def test_commas_that_may_not_be_decimal_are_left_alone(content: str, cells: list[str], tmp_path: Path) -> None:
    assert read_table(written(tmp_path / "a.csv", content))["a"].tolist() == cells


def test_columns_that_are_wanted_as_text_stay_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "code;size;list;flag\n01;1,5;1,5;TRUE\n;2;2,5;\n")
    frame = read_table(path, text=["code", "list", "flag", "not there"])
    assert frame["size"].tolist() == [1.5, 2]
    assert frame["list"].tolist() == ["1,5", "2,5"]
    assert (frame["code"][0], frame["flag"][0]) == ("01", "TRUE")
    assert frame[["code", "flag"]].iloc[1].isna().all()


def test_line_ends_of_old_macs(tmp_path: Path) -> None:
    assert read_table(written(tmp_path / "a.csv", "a,b\r1,2\r3,4")).to_numpy().tolist() == [[1, 2], [3, 4]]


def test_encodings_are_detected_or_given(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "名前,値段\n東京,2\n大阪,4\n".encode("shift_jis"))
    assert "name its encoding (--encoding)" in refusal(path)
    assert read_table(path, encoding="shift_jis")["名前"][0] == "東京"
    assert "is not text in the encoding 'utf-8'" in refusal(path, encoding="utf-8")
    with pytest.raises(InputError, match="encoding='utf-99' is not known; use one such as utf-8"):
        read_table(path, encoding="utf-99")
    FRAME.to_parquet(tmp_path / "a.parquet")
    assert "encoding='utf-8' has no meaning" in refusal(tmp_path / "a.parquet", encoding="utf-8")
    western = ARFF.replace("red", "grün").encode("cp1252")
    assert read_table(written(tmp_path / "a.arff", western), encoding="latin-1")["the colour"][0] == "grün"


def test_comments_above_a_table_are_reported(tmp_path: Path) -> None:
    for comment in ("# made by x", "sep=;"):
        path = written(tmp_path / "a.csv", f"{comment}\na;b\n1;2\n")
        assert f"begins with the comment {comment!r}; expected column names" in refusal(path)
    assert "begins with the comment" in refusal(written(tmp_path / "a.csv", "# made by x\na:b\n1:2\n"), delimiter=":")
    assert list(read_table(written(tmp_path / "b.csv", "#id,b\n1,2\n")).columns) == ["#id", "b"]


def test_the_first_line_that_disagrees_is_named(tmp_path: Path) -> None:
    short = written(tmp_path / "a.csv", "a,b\n1,2\n\n1,2,3\n")
    assert "(line 4 has 3 fields separated by commas, the header has 2); name its delimiter (--delimiter" in refusal(short)
    longer = written(tmp_path / "b.csv", "a;b\n" + "1;2;3\n" * 3)
    assert "(line 2 has 3 fields separated by semicolons, the header has 2)" in refusal(longer, delimiter="semicolon")


def test_repeated_names_get_numbers(tmp_path: Path) -> None:
    assert list(read_table(written(tmp_path / "a.csv", "a,a,a.1,b\n1,2,3,4\n")).columns) in (
        ["a", "a.2", "a.1", "b"],
        ["a", "a.1", "a.1.1", "b"],
    )
    frame = read_table(workbook(tmp_path / "a.xlsx", [["a", "a", "b"], [1, 2, 3]]))
    assert list(frame.columns) == ["a", "a.1", "b"]


def test_hostile_but_harmless_tables_are_read_as_they_are(tmp_path: Path) -> None:
    script = read_table(written(tmp_path / "a.csv", "<script>alert(1)</script>,y\n1,2\n"))
    assert list(script.columns) == ["<script>alert(1)</script>", "y"]
    formula = read_table(written(tmp_path / "b.csv", "a,b\n=1+1,2\n=cmd|'/c calc'!A1,3\n"))
    assert formula["a"].tolist() == ["=1+1", "=cmd|'/c calc'!A1"]
    gap = read_table(written(tmp_path / "c.csv", "a,b\n,1\n,2\n"))
    assert gap["a"].isna().all()
    wide = read_table(
        written(tmp_path / "d.csv", ",".join(f"c{index}" for index in range(10_000)) + "\n" + ",".join(["1"] * 10_000))
    )
    assert wide.shape == (1, 10_000)
    quoted = read_table(written(tmp_path / "e.csv", 'a;b\n"1;2\n3";4\n"x, y";5\n'))
    assert quoted.shape == (2, 2)
    spaced = read_table(written(tmp_path / "g.csv", "the size,the name\n1,John Smith\n2,Ann Lee\n"))
    assert list(spaced.columns) == ["the size", "the name"]
    single = read_table(written(tmp_path / "f.csv", "x\n1\n2.5\n"))
    assert single["x"].tolist() == [1, 2.5]
    marked = read_table(written(tmp_path / "h.csv", "x\n1\n?\n\nNA\n2.5\n"))
    assert marked["x"].isna().tolist() == [False, False, True, False]
    assert marked["x"].tolist()[:2] == ["1", "?"]


def test_formulas_of_a_workbook_are_never_computed(tmp_path: Path) -> None:
    frame = read_table(workbook(tmp_path / "a.xlsx", [["a", "b"], ["=1+1", 2], ["=HYPERLINK(1)", 3]]))
    assert frame["b"].tolist() == [2, 3]
    assert frame["a"].isna().all()  # no program has computed and saved them


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n \n\n", "is empty"),
        ("header.csv", b"a,b\n", "no rows"),
        ("garbage.csv", bytes(range(256)) * 50, "is not text"),
        ("image.csv", b"\x89PNG\r\n\x1a\n" + b"\x00" * 100, "is not text"),
        ("colons.csv", b"a:b:c\n1:2:3\n", "delimiter"),
        ("longer.csv", b"a,b\n1,2,3\n4,5,6\n", "as many fields as its header 'a,b'"),
        ("ragged.csv", b"a,b\n" + b"1,2\n" * 200 + b"1,2,3\n", "not a table"),
        ("garbage.parquet", b"PAR1" + b"\x01" * 50, "cannot be read"),
        ("garbage.xlsx", b"PK\x03\x04 and so on", "not a whole zip archive"),
        ("garbage.xls", b"\xd0\xcf\x11\xe0" + b"\x01" * 700, "cannot be read"),
        ("garbage.npz", b"nothing", "not a whole zip archive"),
        ("garbage.arff", b"no relation here\n1,2\n", "cannot be read"),
        ("short.arff", b"@relation a\n@attribute t string\n@attribute u real\n@data\nhello\n", "cannot be read"),
        ("garbage.csv.gz", b"not packed", "cannot be read"),
        ("cut.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:-20], "cannot be read"),
        ("strange.docx", b"PK", "ending '.docx'; expected one of .csv"),
        ("packed.parquet.gz", b"PK", "ending '.parquet.gz'"),
        ("noending", b"a,b\n1,2\n", "ending"),
    ],
)
def test_other_files_are_refused_in_one_line(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    assert words in refusal(written(tmp_path / name, content))


def test_folders_and_missing_files(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)
    assert "is not there" in refusal(tmp_path / "gone.csv")


def test_the_error_of_a_wrong_delimiter_names_the_right_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b\n1,2\n")
    assert "it looks separated by commas" in refusal(path, delimiter=";")
    with pytest.raises(InputError, match="expected one character"):
        read_table(path, delimiter="--")
    assert read_table(written(tmp_path / "b.csv", "a:b\n1:2\n"), delimiter=":").shape == (1, 2)
    for tab in ("tab", "\\t", "\t"):
        assert read_table(written(tmp_path / "c.csv", "a, b\tc\n1, 2\t3\n"), delimiter=tab).shape == (1, 2)
    FRAME.to_parquet(tmp_path / "a.parquet")
    assert "has no meaning" in refusal(tmp_path / "a.parquet", delimiter=",")


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, (f"open({str(tmp_path / 'sprung')!r}, 'w').close()",)

    np.savez(tmp_path / "trap.npz", X=np.array([Trap(), 1], dtype=object))
    assert "cannot be read" in refusal(tmp_path / "trap.npz")
    assert not (tmp_path / "sprung").exists()


def test_a_small_file_that_unpacks_to_two_gigabytes_is_refused_in_little_memory(tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="this system cannot limit the memory of a process")
    piece = gzip.compress(b"1,2\n" * (1 << 22))  # 16 MB in 16 kB; a file of many pieces is one stream
    path = written(tmp_path / "bomb.csv.gz", gzip.compress(b"a,b\n") + piece * 128)
    assert path.stat().st_size < 1 << 23
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from gar.app.tables import read_table
read_table({str(path)!r})
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"InputError: {path} unpacks to more than {1 << 30} bytes" in result.stderr


@pytest.mark.parametrize("name", ["bomb.xlsx", "bomb.npz"])
def test_a_zip_that_unpacks_to_too_much_is_refused(name: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml" if name.endswith("x") else "X.npy", bytes(1 << 22))
    assert "claims to unpack to" in refusal(written(tmp_path / name, buffer.getvalue()), limit=1 << 20)


def test_a_parquet_file_of_too_many_cells_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.zeros(1 << 20), "b": np.zeros(1 << 20)}).to_parquet(tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 1 << 17
    assert "claims" in refusal(tmp_path / "bomb.parquet", limit=1 << 20)
    pd.DataFrame({"a": ["x" * 10_000] * 5000}).to_parquet(tmp_path / "text.parquet")
    assert (tmp_path / "text.parquet").stat().st_size < 1 << 17
    assert "unpacks to more" in refusal(tmp_path / "text.parquet", limit=1 << 20)


def test_a_cell_far_away_does_not_fill_the_memory(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"], sheet["B1"], sheet["A2"], sheet["XFD1048576"] = "a", "b", 1, 5
    book.save(tmp_path / "far.xlsx")
    frame = read_table(tmp_path / "far.xlsx")
    assert len(frame) == 2


def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(10))
    claiming = buffer.getvalue().replace(b"(10,), }", b"(10000000000000,), }").replace(b"             \n", b"\n", 1)
    header = len(claiming) - 80 - 10
    claiming = claiming[:8] + header.to_bytes(2, "little") + claiming[10:]
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", claiming)
    assert "cannot be read" in refusal(tmp_path / "a.npz")


def test_arrays_of_different_lengths_or_many_dimensions_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 2)), y=np.zeros(2))
    assert "different lengths" in refusal(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.zeros((3, 2, 2)))
    assert "array 'X' has shape (3, 2, 2)" in refusal(tmp_path / "b.npz")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow; install the extra 'data'"):
        read_table(tmp_path / "a.parquet")
