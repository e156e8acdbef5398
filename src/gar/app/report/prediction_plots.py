"""Figures of predictions: predicted against true values and ranks, and errors."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import rankdata

from gar.app.report.drawing import MUTED, Panel, Plot, View, evenly, few_ticks, label, line, points
from gar.app.report.formatting import printable, short
from gar.app.report.results import Method, Predictions
from gar.registry import BASELINE, NETWORKS

_BINS = 10
_GRADES = 25
"""The largest number of distinct labels that are treated as grades."""


class Pairs(NamedTuple):
    """True and predicted values of all targets, concatenated, without missing ones."""

    true: np.ndarray
    predicted: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        errors: np.ndarray = self.predicted - self.true
        return errors

    @property
    def correlation(self) -> float:
        if len(self.true) < 2 or self.true.std() == 0 or self.predicted.std() == 0:
            return 0.0
        return float(np.corrcoef(self.true, self.predicted)[0, 1])


def pairs_of(predictions: Predictions) -> Pairs:
    """Return one target in its own units, or several targets standardised by their labels, so that they fit one figure."""
    pairs = []
    for true, predicted in zip(predictions.true, predictions.predicted, strict=True):
        one, other = np.asarray(true, np.float64), np.asarray(predicted, np.float64)
        known = np.isfinite(one) & np.isfinite(other)
        one, other = one[known], other[known]
        if len(predictions.true) > 1 and len(one):
            centre, scale = one.mean(), one.std() or 1.0
            one, other = (one - centre) / scale, (other - centre) / scale
        pairs.append((one, other))
    return Pairs(*(np.concatenate(side) for side in zip(*pairs, strict=True)))


def ranks_of(predictions: Predictions) -> Pairs:
    """Return the ranks within each target, from 0 to 100 percent."""
    single = [pairs_of(Predictions(true=[t], predicted=[p])) for t, p in zip(predictions.true, predictions.predicted, strict=True)]
    ranked = [[100 * (rankdata(side) - 0.5) / len(side) for side in pair] for pair in single if len(pair.true)]
    return Pairs(*(np.concatenate(side) for side in zip(*ranked, strict=True))) if ranked else Pairs(np.empty(0), np.empty(0))


def thin(values: np.ndarray, most: int) -> np.ndarray:
    """Return the indices of at most ``most`` values, evenly spaced in their order.

    Example:
        >>> thin(np.array([3.0, 1.0, 2.0, 4.0]), 2)
        array([1, 3])
    """
    order: np.ndarray = np.argsort(values, kind="stable")
    chosen: np.ndarray = order[evenly(len(values), most)]
    return chosen


def spread(values: np.ndarray) -> np.ndarray:
    """Add a small jitter to values with few distinct levels, such as grades, so that points do not hide each other."""
    distinct = np.unique(values)
    if not 1 < len(distinct) <= _GRADES:
        return values
    apart = (np.arange(len(values)) * 0.6180339887) % 1 - 0.5  # the golden ratio fills an interval evenly
    shifted: np.ndarray = values + 0.6 * np.diff(distinct).min() * apart
    return shifted


def against_truth(view: View) -> Iterator[Plot]:
    """Show predicted against true values, and the same as ranks, in a panel for every method."""
    methods, values = _pairs_by_method(view)
    if not methods:
        return
    ranks = {method.name: ranks_of(method.predictions) for method in methods if method.predictions}
    several, target = len(view.problem.targets) > 1, printable(next(iter(view.problem.targets), "label"), 24)
    labels = values[methods[0].name].true
    note = f" {view.points} of {len(labels):,} points are drawn, evenly spaced by label." if len(labels) > view.points else ""
    note += " Equal labels are jittered." if len(np.unique(labels)) <= _GRADES else ""
    shared = f"Test rows; a prediction is the mean over the folds' winners. On the line, predicted and true values are equal.{note}"
    pooled = f" All {len(view.problem.targets)} targets, each standardised." if several else ""
    views = (
        ("values", "Values", "standard deviations of the labels" if several else target, values, _frame(labels), pooled),
        ("ranks", "Ranks", "rank, percent", ranks, (0.0, 100.0), ""),
    )
    for name, title, axis, pairs, frame, extra in views:
        panels = [_scatter(view, method, pairs[method.name], axis, frame) for method in methods]
        group = "Predicted against true"
        yield Plot(f"predicted-{name}", title, shared + extra, panels, legend=methods, cell=(200.0, 210.0), left=44.0, group=group)


def _pairs_by_method(view: View) -> tuple[list[Method], dict[str, Pairs]]:
    """Return the methods with predictions of labelled rows, and these by name."""
    pairs = {method.name: pairs_of(method.predictions) for method in view.methods if method.predictions}
    return [method for method in view.methods if method.name in pairs and len(pairs[method.name].true)], pairs


def _frame(true: np.ndarray) -> tuple[float, float]:
    """Return a little more than the range of the labels; predictions beyond it are drawn at the edge."""
    room = 0.12 * float(np.ptp(true)) or 1.0
    return float(true.min() - room), float(true.max() + room)


def _scatter(view: View, method: Method, pairs: Pairs, unit: str, frame: tuple[float, float]) -> Panel:
    beyond = int(((pairs.predicted < frame[0]) | (pairs.predicted > frame[1])).sum())
    alt = f"{printable(method.title)}: {len(pairs.true)} predictions, correlation {short(pairs.correlation)} with the labels"
    alt += f", mean absolute difference {short(float(np.abs(pairs.errors).mean()))}."
    alt += f" {beyond} lie beyond the frame and are drawn at its edge." if beyond else ""

    def draw(axes: Axes) -> None:
        look, some = view.look(method), thin(pairs.true, view.points)
        axes.plot(frame, frame, color=MUTED, linewidth=0.9, zorder=2)
        points(axes, spread(pairs.true[some]), np.clip(pairs.predicted[some], *frame), look, clip_on=False)
        axes.set(xlim=frame, ylim=frame)
        axes.text(0.03, 0.97, f"r = {pairs.correlation:.3f}", transform=axes.transAxes, va="top", fontsize=8)
        few_ticks(axes, 4, 4)
        label(axes, printable(method.title, 22), f"true: {unit}", color=look.light)

    return Panel(draw, alt, method)


def residuals(view: View) -> Iterator[Plot]:
    """Show the mean error by label, and the distribution of absolute errors."""
    methods, pairs = _pairs_by_method(view)
    if not methods:
        return
    caption = (
        "First, the mean error of test rows in groups of about equal size by label: a method that shrinks its predictions towards "
        "the mean errs upwards on small labels and downwards on large ones. Then, the share of rows with an error below a limit: "
        "higher is better."
    )
    panels = [_bias_panel(view, methods, pairs), _share_panel(view, methods, pairs)]
    yield Plot("residuals", "Errors", caption, panels, legend=methods, cell=(300.0, 205.0), left=46.0)


def _bias(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return mean label and mean error of groups of rows by label; rows with equal labels stay together."""
    count = max(2, min(_BINS, len(pairs.true) // 8))
    edges = np.unique(np.quantile(pairs.true, np.linspace(0, 1, count + 1)[1:-1]))
    group = np.searchsorted(edges, pairs.true)
    groups = [group == number for number in np.unique(group)]
    return np.array([pairs.true[g].mean() for g in groups]), np.array([pairs.errors[g].mean() for g in groups])


def _bias_panel(view: View, methods: Sequence[Method], pairs: dict[str, Pairs]) -> Panel:
    found = {method.name: _bias(pairs[method.name]) for method in methods}
    described = ", ".join(
        f"{printable(method.title)} {short(found[method.name][1][0])} and {short(found[method.name][1][-1])}" for method in methods
    )

    def draw(axes: Axes) -> None:
        axes.axhline(0, color=MUTED, linewidth=0.9, zorder=2)
        for method in methods:
            look = view.look(method)
            line(axes, *found[method.name], look, marker=look.marker, markersize=4.5 if look.is_of_interest else 2.8)
        axes.set_ylim(*view.limits_of({name: np.append(error, 0.0) for name, (_, error) in found.items()}))
        few_ticks(axes, y=7)
        label(axes, "Mean error by label", "true label", "predicted minus true")

    return Panel(draw, f"Mean error of the smallest and of the largest labels: {described}.")


def _share_panel(view: View, methods: Sequence[Method], pairs: dict[str, Pairs]) -> Panel:
    sizes = {method.name: np.abs(pairs[method.name].errors) for method in methods}
    halves = {name: np.quantile(values, (0.5, 0.9)).tolist() for name, values in sizes.items()}
    described = ", ".join(f"{printable(method.title)} {' and '.join(map(short, halves[method.name]))}" for method in methods)
    shares = np.linspace(0, 1, 41)

    def draw(axes: Axes) -> None:
        for method in methods:
            line(axes, np.quantile(sizes[method.name], shares), 100 * shares, view.look(method))
        baseline = next((one for one in methods if (one.loss, one.family) == (BASELINE, NETWORKS)), methods[0])
        axes.set(xlim=(0, float(np.quantile(sizes[baseline.name], 0.97)) or 1.0), ylim=(0, 100))
        few_ticks(axes)
        label(axes, "Share of rows with a smaller error", "absolute error", "percent of rows")

    return Panel(draw, f"Median and 90th percentile of the absolute error: {described}.")
