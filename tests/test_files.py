"""A file is there as a whole or not at all; links, pipes and devices stay what they are."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
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


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"old")
    for name in ("file", "new"):  # a link to a file, and one to nothing yet
        (tmp_path / name).symlink_to(tmp_path / "folder" / name)
        write_whole(tmp_path / name, b"content")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "folder" / name).read_bytes() == b"content"
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["file", "new"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # open before anything is written, so that nobody waits
        try:
            pool.submit(write_whole, pipe, b"content").result(timeout=10)
            assert os.read(reader, 99) == b"content"
        finally:
            os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_to(tmp_path: Path) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # a null device of our own, never that of the machine
        device.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    write_whole(device, b"content")
    assert stat.S_ISCHR(device.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        write_whole(tmp_path, b"content")


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*/file'$"):
        write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
