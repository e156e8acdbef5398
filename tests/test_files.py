"""A file is there as a whole or not at all."""

from pathlib import Path

import pytest

from gar.files import write_whole


def test_old_content_is_replaced(tmp_path: Path) -> None:
    for content in (b"one", b"the other"):
        write_whole(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "file", "text")  # type: ignore[arg-type]
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
