"""A search that is killed goes on where it was."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from gar.stack import train
from tests.search.problem import LONG, assert_same, many_models, record_files, recorded_models, search, small_data, start

PATIENCE = 60.0


def wait_for_records(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while len(record_files(folder)) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.002)


def living(group: int) -> list[int]:
    """Processes of a group that are not dead yet; the dead stay listed until somebody asks for their fate."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(path.parent.name))
    return found


def wait_for_death_of_group(process: subprocess.Popen[str], seconds: float) -> None:
    """All processes that were started are gone, not only the first."""
    end = time.monotonic() + seconds
    while left := living(process.pid):
        assert time.monotonic() < end, f"processes {left} are left"
        time.sleep(0.01)


def assert_each_model_once(folder: Path, total: int) -> None:
    models = [model for path in record_files(folder) for model in recorded_models(path)]
    assert len(models) == len(set(models)) == total


def test_ten_times_killed(tmp_path: Path) -> None:
    moments = random.Random(5)
    for life in range(10):
        workers, chunk = ("2", "2") if life in (3, 7) else ("1", str(moments.randint(1, 2)))
        process = start(tmp_path, "--workers", workers, "--chunk-size", chunk)
        wait_for_records(tmp_path, len(record_files(tmp_path)) + moments.randint(0, 3), process)
        time.sleep(moments.uniform(0, 0.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    done = len(record_files(tmp_path))
    assert done > 5
    resumed = search(small_data(), many_models(), LONG, records=tmp_path, chunk_size=9)
    assert len(record_files(tmp_path)) > done
    assert_same(resumed, train(small_data(), many_models(), LONG))
    assert_each_model_once(tmp_path, 100)
    undisturbed = tmp_path / "undisturbed"
    search(small_data(), many_models(), LONG, records=undisturbed)
    assert_same_records(tmp_path / record_files(undisturbed)[0].parent.name, undisturbed)


def assert_same_records(one: Path, other: Path) -> None:
    """Every model has the same numbers, whatever the file it is in."""
    tables = []
    for folder in (one, other):
        table = {}
        for path in record_files(folder):
            with np.load(path, allow_pickle=False) as file:
                history = [file[name] for name in file.files if name.startswith("history.")]
            for row, model in enumerate(recorded_models(path)):
                table[model] = b"".join(values[row].tobytes() for values in history)
        tables.append(table)
    assert tables[0] == tables[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(("workers", "to_group"), [("1", False), ("2", False), ("2", True)])
def test_interrupt_ends_quickly_and_keeps_records(tmp_path: Path, workers: str, to_group: bool) -> None:
    """Ctrl-C in a terminal reaches the whole group, ``kill -INT`` the one process."""
    process = start(tmp_path, "--workers", workers, "--chunk-size", "2")
    wait_for_records(tmp_path, 2, process)
    sent = time.monotonic()
    (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
    error = process.communicate(timeout=PATIENCE)[1]
    seconds = time.monotonic() - sent
    wait_for_death_of_group(process, 1.0)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in error
    assert seconds < 2.0
    done = record_files(tmp_path)
    assert 2 <= len(done) < 50
    contents = [path.read_bytes() for path in done]
    assert_same(search(small_data(), many_models(), LONG, records=tmp_path), train(small_data(), many_models(), LONG))
    assert [path.read_bytes() for path in done] == contents
    assert_each_model_once(tmp_path, 100)
