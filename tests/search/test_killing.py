"""A search that is killed goes on where it was."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy as np
import pytest

from benchmarks.fuzz.children import living
from gar.stack import train
from gar.workers import end_with_parent
from tests.search.problem import LONG, assert_same, many_models, record_files, recorded_models, search, small_data, start

PATIENCE = 60.0


def wait_for_records(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while len(record_files(folder)) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.002)


def wait_for_death_of_group(process: subprocess.Popen[str], seconds: float) -> None:
    """All processes that were started are gone, not only the first."""
    end = time.monotonic() + seconds
    while left := living(process.pid):
        assert time.monotonic() < end, f"processes {left} are left"
        time.sleep(0.01)


def wait_for_busy_workers(process: subprocess.Popen[str], count: int) -> None:
    """This many workers have computed for longer than it takes to start."""
    end = time.monotonic() + PATIENCE
    while sum(processor_seconds(pid) > 4.0 for pid in living(process.pid) if pid != process.pid) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)


def processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end_group(process: subprocess.Popen[str]) -> None:
    for pid in living(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate()


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


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


@needs_proc
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


LONG_SEARCH = ("--workers", "3", "--chunk-size", "50", "--epochs", "100000")  # two chunks, of minutes, for three workers


def long_search(folder: Path, backend: str) -> subprocess.Popen[str]:
    return start(folder, *LONG_SEARCH, "--backend", backend)


def long_comparison(folder: Path, backend: str) -> subprocess.Popen[str]:
    pytest.importorskip("click", reason="the extra 'app' is not installed")
    command = [sys.executable, "-m", "gar", "compare", "diabetes", "--losses", "gar", "--workers", "2", "--backend", backend]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--epochs", "20000", "--out", str(folder)],
        env=environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_proc
@pytest.mark.parametrize(
    ("program", "backend", "number"),
    [
        (long_search, "loky", signal.SIGTERM),
        (long_search, "loky", signal.SIGKILL),
        (long_search, "multiprocessing", signal.SIGKILL),
        (long_comparison, "loky", signal.SIGTERM),
        (long_comparison, "loky", signal.SIGKILL),
        (long_comparison, "dask", signal.SIGKILL),
    ],
)
def test_workers_end_with_their_parent(
    tmp_path: Path, program: Callable[[Path, str], subprocess.Popen[str]], backend: str, number: signal.Signals
) -> None:
    """Those that are busy, and the one that has nothing to do."""
    if backend == "dask":
        pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    process = program(tmp_path, backend)
    try:
        wait_for_busy_workers(process, 2)
        process.send_signal(number)
        process.wait(PATIENCE)
        wait_for_death_of_group(process, 5.0)
    finally:
        end_group(process)


@needs_proc
def test_a_comparison_that_loses_a_worker_ends_with_one_sentence(tmp_path: Path) -> None:
    process = long_comparison(tmp_path, "loky")
    try:
        wait_for_busy_workers(process, 2)
        worker = next(pid for pid in living(process.pid) if pid != process.pid and processor_seconds(pid) > 4.0)
        os.kill(worker, signal.SIGKILL)
        error = process.communicate(timeout=PATIENCE)[1]
        wait_for_death_of_group(process, 5.0)
    finally:
        end_group(process)
    assert process.returncode == 2
    assert "Traceback" not in error
    assert error.splitlines()[-1].startswith("Error: a worker process was ended from outside")
    assert "SIGKILL" in error.splitlines()[-1]


@needs_proc
def test_workers_end_that_have_just_been_started(tmp_path: Path) -> None:
    """They watch their parent before they import what takes seconds."""
    process = long_comparison(tmp_path, "loky")
    try:
        end = time.monotonic() + PATIENCE
        while len(living(process.pid)) < 4:  # the process itself, two workers, and the one that ends their resources
            assert time.monotonic() < end
            time.sleep(0.001)
        process.kill()
        process.wait(PATIENCE)
        wait_for_death_of_group(process, 5.0)
    finally:
        end_group(process)


def test_workers_watch_before_they_import_torch() -> None:
    code = "import sys, gar.workers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE).returncode == 0


def test_an_initializer_of_the_user_stays() -> None:
    with joblib.parallel_config(backend="loky", initializer=print):
        assert end_with_parent() == {}
    assert "initializer" in end_with_parent()
