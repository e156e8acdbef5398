"""Comparisons whose process, or one of whose workers, is killed at a random moment; the same command then continues them."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzz import Attempt
from benchmarks.fuzz.children import living
from gar.app.models import load_model
from gar.errors import InputError
from gar.search.records import DamagedError, from_bytes

KILLS = 10
SECONDS = 300.0
"""A run that takes longer hangs."""
END_SECONDS = 5.0
"""How soon workers are gone after their parent."""
COMMAND = ("compare", "diabetes", "--losses", "mae,gar", "--epochs", "40", "--folds", "3", "--workers", "2", "--quiet")


class Ended(NamedTuple):
    """How a comparison ended."""

    code: int | None
    """None if it hung."""
    error: str
    seconds: float
    left: int
    """Processes that were still there."""
    is_killed: bool

    @property
    def is_clear(self) -> bool:
        """Return True if it ended well, by the signal that was sent, or with one sentence."""
        return "Traceback" not in self.error

    @property
    def is_crash(self) -> bool:
        return self.code is None or (self.code < 0 and -self.code not in (signal.SIGKILL, signal.SIGTERM))


def run(out: Path, *, kill: str = "", after: float = SECONDS, by: int = signal.SIGKILL) -> Ended:
    """Run the comparison; ``kill`` is nothing, its ``"parent"`` or a ``"worker"``, some seconds after its start."""
    victim = None
    start, environment = time.monotonic(), os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gar", *COMMAND, "--out", str(out)]
    with (out.parent / "stderr").open("w+") as errors:
        process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            if kill and _ended(process, after) is None:
                victim = process.pid if kill == "parent" else _worker(process)
            if victim is not None:
                os.kill(victim, by)
            code = _ended(process, SECONDS)
        finally:
            left = _end_all(process)
        errors.seek(0)
        return Ended(code, errors.read(), time.monotonic() - start, left, victim is not None)


def _worker(process: subprocess.Popen[bytes]) -> int | None:
    """Return the worker that was started last, once there are two, their parent and the process that ends their resources."""
    while process.poll() is None:
        if len(found := living(process.pid)) > 3:
            return found[-1]
        time.sleep(0.01)
    return None


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _end_all(process: subprocess.Popen[bytes]) -> int:
    """Return how many processes are left after a grace time, and end them."""
    end = time.monotonic() + END_SECONDS
    while (left := living(process.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    return len(left)


def outcome(out: Path) -> str:
    """Return the results of a comparison and its model's predictions, without anything that depends on time."""
    from sklearn.datasets import load_diabetes

    results = json.loads((out / "results.json").read_text())
    for method in (method for problem in results["problems"] for method in (*problem["methods"], *problem["references"])):
        method["seconds"] = 0.0
    frame = load_diabetes(as_frame=True).data
    predictions = load_model(out / "model").predict(frame).tobytes().hex()
    return json.dumps([results["problems"], predictions])


def records_are_whole(out: Path) -> bool:
    """Return True if every record can be read, and none was put aside."""
    try:
        for path in out.glob("records/*/*.npz"):
            from_bytes(path.read_bytes())
        for path in out.glob("records/loss-*/model.safetensors"):
            load_model(path.parent)
    except (DamagedError, InputError):
        return False
    return not list(out.glob("records/*/*.corrupt"))


def kills(kind: str, expected: str, duration: float, folder: Path) -> Attempt:
    """Kill a comparison again and again, each time in a folder of its own, and continue it."""
    moments, ends, lost, changed = random.Random(kind), [], 0, 0
    for number in range(KILLS):
        out = folder / f"{kind}-{number}"
        by = signal.SIGKILL if kind == "worker" or number % 2 else signal.SIGTERM
        ends.append(run(out, kill=kind, after=moments.uniform(0.1, 0.95) * duration, by=by))
        whole = records_are_whole(out)
        ends.append(run(out))
        finished = ends[-1].code == 0 and whole and records_are_whole(out)
        lost += not finished
        changed += finished and outcome(out) != expected
    return Attempt(
        f"a {kind} of `gar compare` killed, and the comparison continued",
        sum(one.is_killed for one in ends),
        silent_changes=changed,
        tracebacks=sum(not one.is_clear for one in ends),
        crashes=sum(one.is_crash for one in ends),
        lost_or_mixed=lost,
        processes_left=sum(one.left for one in ends),
    )


def attempts() -> Iterator[Attempt]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        undisturbed = run(folder / "undisturbed")
        if undisturbed.code != 0:
            raise RuntimeError(f"the undisturbed comparison failed: {undisturbed.error}")
        expected = outcome(folder / "undisturbed")
        for kind in ("parent", "worker"):
            yield kills(kind, expected, undisturbed.seconds, folder)
