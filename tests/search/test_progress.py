"""One line on a terminal, a few lines in a log."""

import io
import math
import time

import pytest

from gar.search.progress import EpochBoard, EpochState, Progress, report_epochs
from tests.search.problem import SETTINGS, search, small_data, small_models


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_terminal_shows_one_changing_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gar.search.progress._REFRESH_SECONDS", 1e6)
    stream, clock = Terminal(), Clock()
    bar = Progress(stream, 40, 10, "mae", clock=clock)
    clock.now = 5.0
    bar.update(10, 4.5)
    assert bar.line() == "[############------------] 20/40 models, 2/s, 0:05, 0:10 left, best validation mae 4.5"
    clock.now = 10.0
    bar.update(20, 5.0)
    bar.close()
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().count("\r") == 3
    assert stream.getvalue().endswith("40/40 models, 3/s, 0:10, best validation mae 4.5\n")


def test_terminal_moves_between_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk may take minutes: elapsed time and time left move meanwhile, and nothing is written after the end."""
    monkeypatch.setattr("gar.search.progress._REFRESH_SECONDS", 0.001)
    stream, clock = Terminal(), Clock()
    bar = Progress(stream, 40, 0, "mae", clock=clock)
    clock.now = 5.0
    bar.update(10, 4.5)
    clock.now = 8.0
    end = time.monotonic() + 60.0
    while "10/40 models, 2/s, 0:08, 0:12 left" not in stream.getvalue():
        assert time.monotonic() < end
        time.sleep(0.001)
    bar.close()
    written = stream.getvalue()
    time.sleep(0.02)
    assert stream.getvalue() == written


def test_log_gets_a_line_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    bar = Progress(stream, 100, 0, "pearson", clock=clock)
    for second in range(25):
        clock.now = float(second)
        bar.update(1, second / 100)
    bar.close()
    lines = stream.getvalue().splitlines()
    assert ["11/100" in lines[0], "21/100" in lines[1], "25/100" in lines[2]] == [True] * 3
    assert lines[2].endswith("best validation pearson 0.24")
    assert "\r" not in stream.getvalue()


def test_nothing_measured_and_long_times() -> None:
    clock = Clock()
    bar = Progress(None, 10_000, 0, "mae", clock=clock)
    clock.now = 10.0
    bar.update(1, math.nan)
    bar.close()
    assert bar.line().endswith("1/10000 models, 0.1/s, 0:10, 27:46:30 left")


def test_a_chunk_moves_the_line_by_epochs() -> None:
    clock, state = Clock(), EpochState(0.0, 0, 0)
    bar = Progress(None, 40, 0, "mae", clock=clock, running=lambda: state)
    clock.now, state = 10.0, EpochState(5.0, 15, 60)
    assert bar.line() == "[###---------------------] 0/40 models, epoch 15/60, 0:10, 1:10 left"


def test_workers_report_their_epochs() -> None:
    with EpochBoard(3, 10) as board:
        report_epochs(board.path, 0, 4)
        report_epochs(board.path, 2, 6)
        assert board.state([10, 10, 20]) == (16.0, 4, 10)
        board.finish(0)
        assert board.state([10, 10, 20]) == (12.0, 6, 10)
    report_epochs(board.path, 0, 5)  # the board is gone, as it is on another host
    assert not board.path.exists()


def test_search_is_quiet_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    models = small_models().take([1, 2, 3, 4])
    search(small_data(), models, SETTINGS)
    assert capfd.readouterr() == ("", "")
    search(small_data(), models, SETTINGS, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "4/4 models" in err
    assert "best validation mae" in err
