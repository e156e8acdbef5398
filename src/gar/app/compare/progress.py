"""The progress of losses that are fitted side by side: a board that their processes write to, and one line for all."""

import math
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from gar.registry import LOSSES
from gar.search import RunContext
from gar.search.progress import EpochBoard, Progress, duration, report_epochs

_STEPS = 1000
"""Steps into which a fit is divided."""


class LossBoard(EpochBoard):
    """How far the fit of each loss is, weighted by the seconds that it takes.

    Args:
        seconds: estimate for each loss.
    """

    def __init__(self, seconds: Sequence[float]) -> None:
        super().__init__(len(seconds), _STEPS)
        self._seconds = list(seconds)
        self._finished: set[int] = set()

    def finish(self, number: int) -> None:
        super().finish(number)
        self._finished.add(number)

    @property
    def share(self) -> float:
        """Return the share of the whole work that is done."""
        done = sum(self._seconds[number] for number in self._finished)
        return float((done + self.state(self._seconds).models) / max(sum(self._seconds), 1e-9))

    @property
    def running(self) -> list[int]:
        """Return the losses that have begun and are not finished."""
        return [number for number in range(len(self._seconds)) if number not in self._finished and self._done[number] > 0]


def write_share(path: Path, number: int, share: float) -> None:
    """Write how far the fit of a loss is to the file of a board; called in the process that fits it."""
    report_epochs(path, number, max(1, int(_STEPS * share)))


class LossProgress(Progress):
    """Progress line of a comparison: losses done, percent, time elapsed and left, and which losses are being fitted."""

    def __init__(self, context: RunContext, board: LossBoard, losses: Sequence[str]) -> None:
        self._board, self._losses, self._deadline = board, losses, context.deadline
        super().__init__(sys.stderr if context.progress is True else None, len(losses), 0, "mae", label=context.label)

    def line(self) -> str:
        share, seconds = min(self._board.share, 1.0), self._clock() - self._start
        parts = [f"{self._label}[{self._bar(share)}] {self._done}/{self._total} losses, {100 * share:.0f} %, {duration(seconds)}"]
        if 0.01 < share < 1:
            parts.append(f"{duration(min(seconds * (1 - share) / share, self._limit()))} left")
        if running := [LOSSES[self._losses[number]].title for number in self._board.running]:
            parts.append(f"training {' and '.join(running[:3])}")
        return ", ".join(parts)

    def _limit(self) -> float:
        """Return the seconds until the time limit ends training."""
        return math.inf if self._deadline is None else max(0.0, self._deadline - self._clock())


def loss_progress(context: RunContext, board: LossBoard, losses: Sequence[str]) -> "closing[LossProgress]":
    """Show the progress line, if wanted, until the context ends."""
    return closing(LossProgress(context, board, losses))
