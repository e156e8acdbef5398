"""The progress line of a search, and the board on which worker processes write how many epochs they have done."""

import math
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TextIO

import numpy as np

from gar.registry import METRICS
from gar.stack import SPLITS

_LOG_SECONDS = 10.0
_REFRESH_SECONDS = 1.0
_BAR_WIDTH = 24


class EpochState(NamedTuple):
    """How far unfinished models are: how many whole models their epochs amount to, and the epoch of the slowest one."""

    models: float
    epoch: int
    epochs: int


class EpochBoard:
    """Epochs that every chunk has done, one number each, in a file that the processes of this machine share.

    Args:
        chunks: number of chunks.
        epochs: number of epochs of each.
    """

    def __init__(self, chunks: int, epochs: int) -> None:
        self._epochs = epochs
        self._folder = tempfile.TemporaryDirectory(prefix="gar-epochs-")
        self.path = Path(self._folder.name) / "epochs"
        self._done = np.memmap(self.path, dtype=np.int32, mode="w+", shape=(max(chunks, 1),))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        del self._done
        self._folder.cleanup()

    def finish(self, number: int) -> None:
        """Count a chunk as finished: the search itself counts its models from now on."""
        self._done[number] = -1

    def state(self, sizes: Sequence[float]) -> EpochState:
        """Return how far the chunks are that have begun and are not finished; ``sizes`` are their numbers of models."""
        done = np.array(self._done[: len(sizes)])
        running = done > 0
        models = float((done * np.asarray(sizes))[running].sum() / self._epochs)
        return EpochState(models, int(done[running].min(initial=self._epochs)) if running.any() else 0, self._epochs)


def report_epochs(path: Path, number: int, epochs: int) -> None:
    """Write the number of epochs that a chunk has done; nothing is written where the board's file is not, as on another host."""
    if epochs and path.exists():
        np.memmap(path, dtype=np.int32, mode="r+")[number] = epochs


class Progress:
    """Progress line: models done, epoch, time elapsed and left, and the best validation score so far.

    A terminal shows one line, refreshed every second; anything else, such as a log file, gets a new line every ten seconds.

    Args:
        stream: where to write; None writes nothing.
        total: number of models.
        done: number of models that were read from records.
        metric: the metric of the best score.
        label: text before the line.
        clock: returns the time in seconds.
        running: returns how far the unfinished models are.
        report: called every second with the share of the work that is done; None reports it to nobody.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int,
        done: int,
        metric: str,
        *,
        label: str = "",
        clock: Callable[[], float] = time.monotonic,
        running: Callable[[], EpochState] | None = None,
        report: Callable[[float], None] | None = None,
    ) -> None:
        self._report = report
        self._stream, self._total, self._known, self._done, self._metric = stream, total, done, done, metric
        self._label, self._clock, self._start = f"{label} " if label else "", clock, clock()
        self._running = running or (lambda: EpochState(0.0, 0, 0))
        self._last_update = self._last_shown = self._start
        self._best = math.nan
        self._is_terminal = stream is not None and stream.isatty()
        self._lock, self._closed = threading.Lock(), threading.Event()
        if stream is not None or report is not None:
            threading.Thread(target=self._refresh, daemon=True).start()

    def update(self, models: int, best: float) -> None:
        """Count this many more models, the best of which has this validation score; NaN for none."""
        self._done, self._last_update = self._done + models, self._clock()
        better = max if METRICS[self._metric].larger_is_better else min
        self._best = best if math.isnan(self._best) else self._best if math.isnan(best) else better(best, self._best)
        if self._is_terminal or self._is_time_to_log():
            self._show()

    def close(self) -> None:
        """Show the last state, and end the line."""
        self._closed.set()
        self._show(end="\n")
        self._tell()

    @property
    def share(self) -> float:
        """Return the share of the work that is done, epochs of unfinished models included."""
        return min(1.0, (self._done + self._running().models) / max(self._total, 1))

    def line(self) -> str:
        """Return the line as it is now."""
        now, running = self._clock(), self._running()
        done = self._done + running.models
        seconds = (now if running.models else self._last_update) - self._start
        rate = (done - self._known) / max(seconds, 1e-9)
        parts = [f"{self._label}[{self._bar(done / max(self._total, 1))}] {self._done}/{self._total} models"]
        parts += [f"epoch {running.epoch}/{running.epochs}"] if running.epoch else [f"{rate:.3g}/s"]
        parts.append(duration(now - self._start))
        if rate > 0 and self._done < self._total:
            left = (self._total - done) / rate - (now - self._start - seconds)
            parts.append(f"{duration(max(left, 0.0))} left")
        if not math.isnan(self._best):
            parts.append(f"best validation {self._metric} {self._best:.4g}")
        return ", ".join(parts)

    @staticmethod
    def _bar(share: float) -> str:
        filled = int(_BAR_WIDTH * share)
        return "#" * filled + "-" * (_BAR_WIDTH - filled)

    def _is_time_to_log(self) -> bool:
        return self._clock() - self._last_shown >= _LOG_SECONDS

    def _refresh(self) -> None:
        while not self._closed.wait(_REFRESH_SECONDS):
            self._tell()
            if self._is_terminal or self._is_time_to_log():
                self._show(unless_closed=True)

    def _tell(self) -> None:
        if self._report is not None:
            self._report(self.share)

    def _show(self, *, end: str | None = None, unless_closed: bool = False) -> None:
        if self._stream is None:
            return
        with self._lock:
            if unless_closed and self._closed.is_set():
                return
            self._last_shown = self._clock()
            end = end or ("\x1b[K" if self._is_terminal else "\n")
            self._stream.write(("\r" if self._is_terminal else "") + self.line() + end)
            self._stream.flush()


def best_score(metrics: np.ndarray, metric: str) -> float:
    """Return the best validation score of any model and epoch in ``metrics (G, epochs, splits, metrics)``; NaN if there is none."""
    values = metrics[:, :, SPLITS.index("valid"), METRICS[metric].index]
    values = values[np.isfinite(values)]
    if values.size == 0:
        return math.nan
    return float(values.max() if METRICS[metric].larger_is_better else values.min())


def duration(seconds: float) -> str:
    """Return minutes and seconds, such as ``1:05``; longer times have hours, too."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
