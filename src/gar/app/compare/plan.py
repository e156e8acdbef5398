"""The plan of a comparison: which losses are trained, about how long that takes, and what is left out to keep it reasonable."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import joblib
import numpy as np

from gar.registry import BASELINE, FAMILIES, LOSSES, METHOD_OF_INTEREST, NETWORKS, PAPER_LOSSES

if TYPE_CHECKING:
    from gar.app.compare.families import Family
    from gar.app.compare.options import Options
    from gar.app.compare.source import Prepared
    from gar.search import RunContext

AFFORDABLE = 150.0
"""Seconds up to which losses join a comparison in which none were named."""

_ALWAYS = (BASELINE, METHOD_OF_INTEREST)
_PANELS, _PANELS_OF_METHOD = 11, 2
"""Panels of the figures of a report: of all methods together, and of each."""

_ENDING_SECONDS = 0.5
"""Time in which the program and its workers end."""

_MEASURING_SHARE = 0.25
"""The share of the time that measurements may take; losses that are not measured by then are left out."""


class Estimate(NamedTuple):
    """How long the fit of a loss takes: in all, and after training, when its networks predict."""

    seconds: float
    closing: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a comparison of one table trains.

    Args:
        losses: in training order.
        left_out: losses that would take too long, with their seconds; 0 for one that was not measured.
        estimates: on one core, by family and loss; empty if nothing was measured.
        total: seconds from now until the report is there; None if nothing was measured.
        lines: the plan in words.
    """

    losses: tuple[str, ...]
    left_out: Mapping[str, float] = field(default_factory=dict)
    estimates: Mapping[tuple[str, str], Estimate] = field(default_factory=dict)
    total: float | None = None
    lines: tuple[str, ...] = ()

    def estimates_of(self, family: str, losses: Sequence[str]) -> list[Estimate]:
        """Return the estimate for each loss, or a second for all where nothing was measured."""
        return [self.estimates.get((family, loss), Estimate(1.0)) for loss in losses]


def make_plan(
    prepared: "Prepared",
    families: "Sequence[Family]",
    options: "Options",
    context: "RunContext",
    *,
    is_measured: bool = True,
    affordable: float = AFFORDABLE,
) -> Plan:
    """Measure how long each loss takes, and choose as many of the paper's as are affordable, if none are named.

    Args:
        prepared: the table.
        families: kinds of models.
        options: of the comparison; with ``full`` nothing is left out.
        context: how to compute, and until when.
        is_measured: whether to measure at all.
        affordable: seconds for which losses are added.
    """
    losses = options.losses_or(PAPER_LOSSES)
    if not is_measured:
        return Plan(losses=losses)
    workers: int = joblib.effective_n_jobs(context.workers)
    is_free, start = options.losses is None and not options.full, time.monotonic()
    if context.deadline is not None:
        affordable = min(affordable, 0.9 * (context.deadline - start))
    estimates, seconds = dict[tuple[str, str], Estimate](), dict[tuple[str, str], float]()
    size = max(workers, len(_ALWAYS)) if is_free else len(losses)
    for first in range(0, len(losses), size):
        used = time.monotonic() - start
        if first and (wall_seconds(losses, seconds, workers) >= affordable - used or used > _MEASURING_SHARE * affordable):
            break  # to measure more losses would take the time of those that are chosen
        estimates |= _measured(losses[first : first + size], families, prepared, options, context)
        seconds = {key: one.seconds for key, one in estimates.items()}
    left = None if context.deadline is None else context.deadline - time.monotonic()
    affordable = affordable if left is None else min(affordable, 0.9 * left)
    chosen = _affordable(losses, seconds, workers, affordable) if is_free else losses
    methods = sum(1 for _, loss in seconds if loss in chosen)
    total = wall_seconds(chosen, seconds, workers) + report_seconds(methods) + _ENDING_SECONDS
    total = total if left is None else min(total, left)
    left_out = {loss: wall_seconds([loss], seconds, 1) / workers for loss in losses if loss not in chosen}  # 0 if not measured
    lines = _lines(prepared, families, chosen, left_out, total, left, workers)
    return Plan(losses=chosen, left_out=left_out, estimates=estimates, total=total, lines=lines)


def _measured(
    losses: Sequence[str], families: "Sequence[Family]", prepared: "Prepared", options: "Options", context: "RunContext"
) -> dict[tuple[str, str], Estimate]:
    """Return how long losses take on one core, by family and loss."""
    found: dict[tuple[str, str], Estimate] = {}
    for family in families:
        own = [loss for loss in losses if loss in (FAMILIES[family.name].losses or LOSSES)]
        found |= {(family.name, loss): value for loss, value in family.measure(own, prepared, options, context).items()}
    return found


def _affordable(
    losses: Sequence[str], seconds: Mapping[tuple[str, str], float], workers: int, affordable: float
) -> tuple[str, ...]:
    """Return the baseline, the method of interest, and of the others as many as fit, the first ones first."""
    chosen = [loss for loss in losses if loss in _ALWAYS] or list(losses[:1])
    for loss in losses:
        is_measured = any(measured == loss for _, measured in seconds)
        if loss not in chosen and is_measured and wall_seconds([*chosen, loss], seconds, workers) <= affordable:
            chosen.append(loss)
    return tuple(loss for loss in losses if loss in chosen)


def report_seconds(methods: int) -> float:
    """Return about how long it takes to draw a report of this many methods, from the time that a panel takes now."""
    from gar.app.report.drawing import panel_seconds  # imports matplotlib, which a report needs anyway

    return (_PANELS + _PANELS_OF_METHOD * methods) * panel_seconds()


def wall_seconds(losses: Iterable[str], seconds: Mapping[tuple[str, str], float], workers: int) -> float:
    """Return how long losses take: networks of one loss use one core, trees use all of them.

    Example:
        >>> wall_seconds(["mae", "gar", "mse"], {("mlp", "mae"): 4.0, ("mlp", "gar"): 5.0, ("mlp", "mse"): 3.0}, 2)
        7.0
    """
    wanted = list(losses)
    busy = [0.0] * workers
    for loss in wanted:
        first = min(range(workers), key=busy.__getitem__)
        busy[first] += seconds.get((NETWORKS, loss), 0.0)
    others = [value for (family, loss), value in seconds.items() if family != NETWORKS and loss in wanted]
    return max(busy) + sum(others) / workers


def duration(seconds: float) -> str:
    """Return a duration in words.

    Example:
        >>> duration(8.2), duration(95), duration(600), duration(9000)
        ('8 seconds', '1.6 minutes', '10 minutes', '2.5 hours')
    """
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{max(1, round(seconds))} seconds"


def _lines(
    prepared: "Prepared",
    families: "Sequence[Family]",
    chosen: Sequence[str],
    left_out: Mapping[str, float],
    total: float,
    left: float | None,
    workers: int,
) -> tuple[str, ...]:
    """Return the plan in words, line by line."""
    source, kinds = prepared.source, " and ".join(FAMILIES[family.name].title for family in families)
    groups = 0 if source.pairs is None else len(np.unique(source.pairs))
    lines = [
        f"{source.name}: {len(source.labels):,} rows, {source.features.shape[1]:,} columns; {len(prepared.parts)} folds of "
        f"{prepared.train_rows:,} training rows, {len(prepared.test):,} test rows ({prepared.split})",
        f"{kinds} with {', '.join(LOSSES[loss].title for loss in chosen)}; a constant and ridge for reference",
        *([f"rows are compared within {groups:,} groups of {source.pairs_within}"] if groups else []),
        f"about {duration(total)} on {workers} {'core' if workers == 1 else 'cores'}",
    ]
    if left_out:
        named = ", ".join(
            f"{LOSSES[loss].title} (+{duration(value)})" if value else LOSSES[loss].title for loss, value in left_out.items()
        )
        lines.append(f"left out to keep it short: {named}; --full trains them, too")
    if left is not None and total >= left:
        lines.append(
            "training is cut to keep the time: fewer epochs, networks or rows; --full, or a longer --time-limit, cuts less"
        )
    return tuple(lines)
