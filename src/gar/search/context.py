"""Where and how to compute: one context for every run, which changes no result."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import joblib

from gar.files import write_whole
from gar.search.workers import check_workers

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Where and how to compute; shared by searches, comparisons and the reproduction of the paper.

    Args:
        records: folder for what is finished; the same run continues from it. None keeps nothing.
        workers: processes; -1 is one per core, 1 is this process alone.
        backend: ``"loky"``, ``"dask"``, ``"ray"`` or another backend of joblib; None is what the context says, or else loky.
        address: of a running cluster of Dask or Ray.
        progress: whether to show a progress line on stderr.
        label: text before the progress line.
        deadline: when to stop, on the clock of ``time.monotonic``; None is never.
    """

    records: Path | None = None
    workers: int = 1
    backend: str | None = None
    address: str | None = None
    progress: bool = False
    label: str = ""
    deadline: float | None = None

    def __post_init__(self) -> None:
        check_workers(self.workers)

    def is_late(self) -> bool:
        """Return True once the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def labelled(self, label: str) -> "RunContext":
        """Return the same context with another text before the progress line."""
        return replace(self, label=label)

    def start_workers(self) -> None:
        """Start the worker processes, so that the first loss does not seem slower than the others."""
        self.map(_do_nothing, [()] * joblib.effective_n_jobs(self.workers))

    def map(self, function: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """Call a function with each of these arguments, several at a time."""
        if joblib.effective_n_jobs(self.workers) == 1:
            return [function(*one) for one in arguments]
        return list(joblib.Parallel(n_jobs=self.workers)(joblib.delayed(function)(*one) for one in arguments))

    @contextmanager
    def stopwatch(self, key: str) -> "Iterator[Stopwatch]":
        """Count the seconds of a search, kept beside its records, so that a search that is continued counts its earlier part."""
        watch = Stopwatch(None if self.records is None else self.records / f"{key[:16]}.seconds")
        try:
            yield watch
        finally:
            watch.stop()


ALONE = RunContext()
"""This process alone, without records or progress."""


def _do_nothing() -> None:
    """A worker that was sent this has imported all that training needs."""


class Stopwatch:
    """Counts on from the seconds in its file, and writes the new count there."""

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
