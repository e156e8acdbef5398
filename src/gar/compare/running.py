"""One loss after another, on all cores, with records on disk and an eye on the clock."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import joblib
import numpy as np
import torch

from gar.files import write_whole
from gar.losses import registry
from gar.search import search
from gar.search.identity import run_key
from gar.stack import History, Models, StackData, TrainSettings

T = TypeVar("T")


class Trial(NamedTuple):
    """All models of one loss, and what became of them."""

    models: Models
    settings: TrainSettings
    history: History
    seconds: float
    """Spent on them, in earlier runs of the same command too."""

    @property
    def loss(self) -> str:
        return self.settings.loss

    @property
    def title(self) -> str:
        return self.settings.spec.title

    @property
    def failed(self) -> int:
        """How many models diverged."""
        return int((self.history.failed_epoch >= 0).sum())


@dataclass(frozen=True, kw_only=True)
class Run:
    """How to compute, which changes no result.

    Args:
        records: folder for finished chunks; the same comparison goes on from them. None keeps nothing.
        workers: processes; -1 is one per core.
        progress: show a line on stderr.
        deadline: when to stop, on the clock of ``time.monotonic``; None is never.
    """

    records: Path | None = None
    workers: int = -1
    progress: bool = False
    deadline: float | None = None

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

    def attempt(self, data: StackData, models: Models, settings: TrainSettings, *, where: str) -> Trial | None:
        """Train all models of a loss; None if time was up before all were done. What is done stays in the records."""
        label = f"{where}: {registry[settings.loss].title:<11}" if self.progress else False
        watch = _Stopwatch(self.records, data, settings)
        try:
            history = search(
                data, models, settings, records=self.records, workers=self.workers, progress=label, stop=lambda: self.is_late
            )
        finally:
            seconds = watch.stop()
        done = (history.epochs_run > 0) | (history.failed_epoch >= 0)
        return Trial(models, settings, history, seconds) if np.all(done) else None


def _do_nothing() -> None:
    """Whoever is sent this has imported all that training needs."""


class _Stopwatch:
    """Seconds spent on a search, kept beside its records: a search that goes on was not quick, it was begun before."""

    def __init__(self, records: Path | None, data: StackData, settings: TrainSettings) -> None:
        key = run_key(data, settings, device="cpu", dtype=torch.float32)
        self._file = None if records is None else records / f"{key[:16]}.seconds"
        self._before, self._start = self._recorded(), time.monotonic()

    def _recorded(self) -> float:
        try:
            return 0.0 if self._file is None else max(0.0, float(self._file.read_text()))
        except (OSError, ValueError):
            return 0.0

    def stop(self) -> float:
        seconds = self._before + time.monotonic() - self._start
        if self._file is not None and self._file.parent.is_dir():
            write_whole(self._file, f"{seconds:.3f}".encode())
        return seconds
