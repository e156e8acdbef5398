"""Downloads from a real server on this machine: resumed, checked, and never half there."""

import hashlib
import io
import os
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gar.errors import InputError
from gar_reproduction.data import catalog
from gar_reproduction.data.files import LARGEST, fetch
from tests.reproduction.data.server import Archive, serving

RED, WHITE = (b'"a";"quality"\n' + b"1.5;6\n" * count for count in (3000, 9000))
ADDRESS = "/static/public/186/wine+quality.zip"


def zipped(members: dict[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


WHOLE = zipped({"winequality-red.csv": RED, "winequality-white.csv": WHITE, "winequality.names": b"text"})


@pytest.fixture(autouse=True)
def small_wine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue's wine, with checksums of the small files that these tests serve, and no way round the local server."""
    entry = catalog.describe("wine")
    files = (
        replace(file, sha256=hashlib.sha256(content).hexdigest()) for file, content in zip(entry.files, (RED, WHITE), strict=True)
    )
    monkeypatch.setitem(catalog._BY_NAME, "wine", replace(entry, files=tuple(files)))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def archive() -> Iterator[Archive]:
    with serving(Archive({ADDRESS: WHOLE})) as served:
        yield served


def names_in(home: Path) -> set[str]:
    return {path.name for path in home.rglob("*") if path.is_file() and path.name != ".fetching.lock"}


def refused(archive: Archive, home: Path, *, timeout: float = 5.0) -> str:
    """The one line that a fetch is refused with; nothing is left under a final name."""
    with pytest.raises(InputError) as caught:
        fetch("wine", home=home, base=archive.url, timeout=timeout)
    assert not {"winequality-red.csv", "winequality-white.csv"} & names_in(home)
    assert not any(name.endswith(".tmp") for name in names_in(home))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_arrive_whole_and_nothing_else(archive: Archive, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    files = fetch("wine", home=tmp_path, base=archive.url, progress=lambda done, total: seen.append((done, total)))
    assert [file.read_bytes() for file in files] == [RED, WHITE]
    assert names_in(tmp_path) == {"winequality-red.csv", "winequality-white.csv"}
    assert seen[-1] == (len(WHOLE), len(WHOLE))


def test_what_is_there_is_not_asked_for_again(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAR_UCI_URL", archive.url)
    first = fetch("wine", home=tmp_path)
    assert fetch("wine", home=tmp_path) == first
    assert len(archive.asked) == 1


def test_only_the_missing_file_is_written(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "wine_quality").mkdir()
    own = tmp_path / "wine_quality" / "winequality-red.csv"
    own.write_text("mine")
    fetch("wine", home=tmp_path, base=archive.url)
    assert own.read_text() == "mine"
    assert (tmp_path / "wine_quality" / "winequality-white.csv").read_bytes() == WHITE


def test_a_broken_connection_is_resumed(archive: Archive, tmp_path: Path) -> None:
    archive.break_after = [8192, 4096]
    fetch("wine", home=tmp_path, base=archive.url)
    assert archive.asked == [None, "bytes=8192-", "bytes=12288-"]


def test_a_later_call_resumes_where_an_earlier_one_gave_up(archive: Archive, tmp_path: Path) -> None:
    archive.break_after = [8192, 4096, 10]
    assert "the connection broke after 12288 of" in refused(archive, tmp_path)
    fetch("wine", home=tmp_path, base=archive.url)
    assert archive.asked[-1] == "bytes=12288-"
    assert names_in(tmp_path) == {"winequality-red.csv", "winequality-white.csv"}


def test_a_server_that_cannot_resume_sends_all_again(archive: Archive, tmp_path: Path) -> None:
    archive.break_after, archive.ranges = [1000], False
    assert [file.read_bytes() for file in fetch("wine", home=tmp_path, base=archive.url)] == [RED, WHITE]


def test_a_server_that_reports_no_length(archive: Archive, tmp_path: Path) -> None:
    archive.lengths = False
    assert [file.read_bytes() for file in fetch("wine", home=tmp_path, base=archive.url)] == [RED, WHITE]


@pytest.mark.parametrize("old", [b"x" * 1000, WHOLE + b"more"], ids=["of another file", "longer than the file"])
def test_a_stale_half_is_thrown_away(old: bytes, archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "wine_quality").mkdir()
    (tmp_path / "wine_quality" / ".wine+quality.zip.part").write_bytes(old)
    assert [file.read_bytes() for file in fetch("wine", home=tmp_path, base=archive.url)] == [RED, WHITE]
    assert archive.asked[0] == f"bytes={len(old)}-"


def test_a_changed_table_is_refused(archive: Archive, tmp_path: Path) -> None:
    archive.files[ADDRESS] = zipped({"winequality-red.csv": RED, "winequality-white.csv": WHITE + b"2;7\n"})
    assert "winequality-white.csv has the checksum" in refused(archive, tmp_path)
    assert names_in(tmp_path) == set()


def test_a_missing_page_is_answered_with_what_to_do_by_hand(archive: Archive, tmp_path: Path) -> None:
    archive.files.clear()
    message = refused(archive, tmp_path)
    assert "404" in message
    assert "https://archive.ics.uci.edu/static/public/186/wine+quality.zip" in message
    assert str(tmp_path / "wine_quality" / "winequality-red.csv") in message
    assert len(archive.asked) == 1


def test_a_server_that_stalls_is_given_up(archive: Archive, tmp_path: Path) -> None:
    archive.break_after, archive.stall = [500], True
    start = time.monotonic()
    assert "no answer within 0.3 s" in refused(archive, tmp_path, timeout=0.3)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("lengths", [True, False])
def test_a_download_that_trickles_has_a_deadline(archive: Archive, tmp_path: Path, lengths: bool) -> None:
    """Though every byte comes in time."""
    archive.trickle, archive.lengths = True, lengths
    start = time.monotonic()
    with pytest.raises(InputError, match="it was too slow, and its time was up; the same command continues"):
        fetch("wine", home=tmp_path, base=archive.url, timeout=5.0, deadline=0.5)
    assert time.monotonic() - start < 5
    archive.trickle = False
    assert [file.read_bytes() for file in fetch("wine", home=tmp_path, base=archive.url)] == [RED, WHITE]


def test_no_network_is_answered_with_what_to_do_by_hand(archive: Archive, tmp_path: Path) -> None:
    with serving(Archive({})) as gone:
        pass
    assert "by hand" in refused(gone, tmp_path)


def test_only_the_web_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no web address"):
        fetch("wine", home=tmp_path, base=f"file://{tmp_path}")


def test_an_archive_that_is_none(archive: Archive, tmp_path: Path) -> None:
    archive.files[ADDRESS] = b"<html>Please log in</html>"
    assert "not a whole zip archive" in refused(archive, tmp_path)


@pytest.mark.parametrize("name", ["../winequality-red.csv", "/winequality-red.csv", "a/../../winequality-red.csv"])
def test_a_member_cannot_choose_where_it_goes(name: str, archive: Archive, tmp_path: Path) -> None:
    archive.files[ADDRESS] = zipped({name: RED, "winequality-white.csv": WHITE})
    home = tmp_path / "home"
    assert "holds no 'winequality-red.csv'" in refused(archive, home)
    assert names_in(tmp_path) == set()


def test_a_link_is_refused(archive: Archive, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        link = zipfile.ZipInfo("winequality-red.csv")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
        file.writestr("winequality-white.csv", WHITE)
    archive.files[ADDRESS] = buffer.getvalue()
    assert "is a folder or a link" in refused(archive, tmp_path)


def test_a_bomb_that_claims_its_size_is_refused_from_the_directory(archive: Archive, tmp_path: Path) -> None:
    archive.files[ADDRESS] = _claiming(WHOLE, "winequality-white.csv", 2**31)
    assert f"claims to unpack to {2**31 + len(RED) + 4} bytes" in refused(archive, tmp_path)


def test_a_bomb_that_hides_its_size_is_refused_while_it_is_read(archive: Archive, tmp_path: Path) -> None:
    bomb = zipped({"winequality-red.csv": RED, "winequality-white.csv": bytes(LARGEST // 64)}, method=zipfile.ZIP_DEFLATED)
    archive.files[ADDRESS] = _claiming(bomb, "winequality-white.csv", 1000)
    assert "damaged" in refused(archive, tmp_path)


def _claiming(archive: bytes, name: str, size: int) -> bytes:
    """The archive, with another size of a member in its directory."""
    offset = archive.index(b"PK\x01\x02")
    while archive[offset + 46 : offset + 46 + len(name)] != name.encode():
        offset = archive.index(b"PK\x01\x02", offset + 1)
    return archive[: offset + 24] + struct.pack("<I", size) + archive[offset + 28 :]


def test_data_that_only_you_can_get_is_not_asked_for(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be downloaded for you"):
        fetch("agedb", home=tmp_path, base=archive.url)
    assert fetch("sine", home=tmp_path, base=archive.url) == []
    assert archive.asked == []


def test_a_data_folder_that_cannot_be_made(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another with GAR_DATA_HOME"):
        fetch("wine", home=tmp_path / "file", base=archive.url)


def test_two_processes_at_once_fetch_the_real_table_once(data_home: Path, archive: Archive, tmp_path: Path) -> None:
    real = {file.name: file.read_bytes() for file in (data_home / "wine_quality").glob("winequality-*.csv")}
    if len(real) != 2:
        pytest.skip("the wine tables are not in the data folder")
    archive.files[ADDRESS] = zipped(real)
    environment = {**os.environ, "GAR_DATA_HOME": str(tmp_path), "GAR_UCI_URL": archive.url}
    code = "from gar_reproduction.data import files, loading; files.fetch('wine'); assert len(loading.load('wine').x) == 6497"
    both = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert len(archive.asked) == 1
