"""How far a search has come, in one line."""

import math
import time
from collections.abc import Callable
from typing import TextIO

from gar.metrics import LARGER_IS_BETTER

_QUIET_SECONDS = 10.0
_WIDTH = 24


class Progress:
    """Models done, rate, time left and the best validation score so far.

    A terminal shows one line that changes; anything else, such as a log file, gets a new line every ten seconds.

    Args:
        stream: where to write; None writes nothing.
        total: number of models.
        done: how many of them were known before.
        metric: what ``best`` is.
        label: what the line begins with.
        clock: seconds.
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
    ) -> None:
        self._stream, self._total, self._known, self._done, self._metric = stream, total, done, done, metric
        self._label, self._clock, self._start = f"{label} " if label else "", clock, clock()
        self._last_shown, self._best = self._start, math.nan
        self._is_terminal = stream is not None and stream.isatty()

    def update(self, models: int, best: float) -> None:
        """So many more models are done, the best of them has this score; NaN for none."""
        self._done += models
        better = max if LARGER_IS_BETTER[self._metric] else min
        self._best = best if math.isnan(self._best) else self._best if math.isnan(best) else better(best, self._best)
        if self._is_terminal or self._clock() - self._last_shown >= _QUIET_SECONDS:
            self._show("\r" if self._is_terminal else "", "\x1b[K" if self._is_terminal else "\n")

    def close(self) -> None:
        """The last state, and the end of the line."""
        self._show("\r" if self._is_terminal else "", "\n")

    def line(self) -> str:
        """The line as it is now."""
        seconds = max(self._clock() - self._start, 1e-9)
        rate = (self._done - self._known) / seconds
        filled = _WIDTH * self._done // max(self._total, 1)
        parts = [f"{self._label}[{'#' * filled}{'-' * (_WIDTH - filled)}] {self._done}/{self._total} models", f"{rate:.3g}/s"]
        if rate > 0 and self._done < self._total:
            parts.append(f"{_duration((self._total - self._done) / rate)} left")
        if not math.isnan(self._best):
            parts.append(f"best validation {self._metric} {self._best:.4g}")
        return ", ".join(parts)

    def _show(self, before: str, after: str) -> None:
        self._last_shown = self._clock()
        if self._stream is not None:
            self._stream.write(f"{before}{self.line()}{after}")
            self._stream.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
