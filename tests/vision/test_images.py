"""Tables of images: what they hold, and every way in which they can be wrong."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gar.errors import InputError
from gar.vision import ImageTable, check_images, read_images
from gar.vision.images import read_image

ROWS = "minutes,file,part\n1.5,a.png,train\n2,b.png,val\n-3e1,sub/c.png,test\n"


def written(folder: Path, text: str = ROWS) -> Path:
    (folder / "table.csv").write_text(text)
    return folder / "table.csv"


def read(file: Path, **more: Any) -> ImageTable:
    return read_images(file, **{"target": "minutes", "path": "file", "split": "part", **more})


def test_columns_of_any_name(tmp_path: Path) -> None:
    table = read(written(tmp_path))
    files, targets = table.part("test")
    assert (files, targets.tolist()) == ([tmp_path / "sub/c.png"], [-30.0])
    (tmp_path / "elsewhere").mkdir()
    moved = read(written(tmp_path), root=tmp_path / "elsewhere")
    assert moved.part("train")[0] == [tmp_path / "elsewhere/a.png"]
    assert moved.fingerprint() == table.fingerprint() != read(written(tmp_path, ROWS.replace("1.5", "1.6"))).fingerprint()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1.5", "old"), "row 1: minutes is 'old', not a number"),
        (("-3e1", ""), "row 3: minutes is empty, not a number"),
        (("-3e1", "inf"), "row 3: minutes is 'inf', not a number"),
        (("val", "valid"), "row 2: part is 'valid', not a split; expected train, val or test"),
        (("b.png", ""), "row 2: file is empty, not a path"),
        (("test", "train"), "has no row whose 'part' is 'test'"),
        (("part", "fold"), "has no column 'part'; it has 'minutes', 'file', 'fold'"),
    ],
)
def test_wrong_tables(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(written(tmp_path, ROWS.replace(*change)))
    assert message in str(error.value)


def test_a_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its paths start from the current folder or from ``root``; rows are counted from 1, whatever its index says."""
    frame = pd.read_csv(written(tmp_path)).set_index(pd.Index([7, 8, 9]))
    columns = {"target": "minutes", "path": "file", "split": "part"}
    monkeypatch.chdir(tmp_path)
    table = read_images(frame, **columns)
    assert (
        table.fingerprint() == read_images(frame, **columns, root=tmp_path).fingerprint() == read(written(tmp_path)).fingerprint()
    )
    assert table.part("train")[0] == [Path("a.png")]
    with pytest.raises(InputError, match="photos, row 2: minutes is 'old', not a number; correct the table"):
        read_images(frame.assign(minutes=[1.0, "old", 2.0]), **columns, name="photos")


@pytest.mark.parametrize("content", [b"", b"PAR1\xff\xfe\x00", b"a,b\n1,2\n1,2,3\n"], ids=["empty", "binary", "ragged"])
def test_files_that_are_no_csv(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "table.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"table.csv cannot be read as CSV .* pass a DataFrame"):
        read(tmp_path / "table.csv")


def test_pandas_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="install the extra 'vision'"):
        read(file)


def test_wrong_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not there"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is not a folder"):
        read(written(tmp_path), root=tmp_path / "none")


def test_all_bad_images_are_reported_at_once(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "good.png")
    Image.effect_noise((64, 64), 50).save(tmp_path / "noise.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "noise.jpg").read_bytes()[:-500])
    (tmp_path / "text.png").write_text("no image")
    names = ["good.png", "cut.jpg", "text.png", *(f"gone{number}.png" for number in range(12))]
    splits = np.array(["train"] * len(names))
    table = ImageTable(root=tmp_path, paths=tuple(names), targets=np.zeros(len(names)), splits=splits)
    with pytest.raises(InputError) as error:
        check_images(table)
    text = str(error.value)
    assert "14 of 15 images cannot be used" in text
    for part in ("cut.jpg (image file is truncated", "text.png (not an image)", "gone0.png (not there)", "and 4 more"):
        assert part in text
    assert "gone7.png" in text
    assert "gone8.png" not in text
    assert "good.png" not in text
    check_images(ImageTable(root=tmp_path, paths=("good.png", "noise.jpg"), targets=np.zeros(2), splits=splits[:2]))


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "CMYK"])
def test_all_become_colours(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (8, 8)).save(tmp_path / "image.tif")
    assert read_image(tmp_path / "image.tif").mode == "RGB"
