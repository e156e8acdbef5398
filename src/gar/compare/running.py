"""How to compute: on how many cores, with records on disk, and an eye on the clock."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import joblib

from gar.files import write_whole
from gar.search.crew import check_workers

T = TypeVar("T")
_TITLE = 16


@dataclass(frozen=True, kw_only=True)
class Run:
    """How to compute, which changes no result.

    Args:
        records: folder for what is finished; the same comparison goes on from it. None keeps nothing.
        workers: processes; -1 is one per core.
        progress: show a line on stderr.
        deadline: when to stop, on the clock of ``time.monotonic``; None is never.
    """

    records: Path | None = None
    workers: int = -1
    progress: bool = False
    deadline: float | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)

    def wake_workers(self) -> None:
        """Start the processes, so that the first loss does not seem slower than the others."""
        self.side_by_side(_do_nothing, [()] * joblib.effective_n_jobs(self.workers))

    def side_by_side(self, function: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """Call a function with each of these arguments, several at a time."""
        if joblib.effective_n_jobs(self.workers) == 1:
            return [function(*one) for one in arguments]
        return list(joblib.Parallel(n_jobs=self.workers)(joblib.delayed(function)(*one) for one in arguments))

    @property
    def is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def searching(self, where: str, title: str) -> dict[str, Any]:
        """What searches are told: where records are, how many work, what stands before the progress, and when to stop."""
        label = f"{where}: {title:<{_TITLE}}" if self.progress else False
        return {"records": self.records, "workers": self.workers, "progress": label, "stop": lambda: self.is_late}

    @contextmanager
    def stopwatch(self, key: str) -> "Iterator[Stopwatch]":
        """Seconds spent on a search of this key, kept beside its records: one that goes on was not quick, it was begun before."""
        watch = Stopwatch(None if self.records is None else self.records / f"{key[:16]}.seconds")
        try:
            yield watch
        finally:
            watch.stop()


def _do_nothing() -> None:
    """Whoever is sent this has imported all that training needs."""


class Stopwatch:
    """Counts from what its file says, and writes there what it has counted."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._before, self._start = self._recorded(), time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._start

    def stop(self) -> None:
        if self._file is not None and self._file.parent.is_dir():
            write_whole(self._file, f"{self.seconds:.3f}".encode())

    def _recorded(self) -> float:
        try:
            return 0.0 if self._file is None else max(0.0, float(self._file.read_text()))
        except (OSError, ValueError):
            return 0.0
