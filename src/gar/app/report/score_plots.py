"""Figures of scores: folds side by side, learning curves, components of the loss, and sensitivity to the loss's parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from gar.app.report.drawing import MUTED, Panel, Plot, View, evenly, few_ticks, label, line, point_beyond, points
from gar.app.report.formatting import printable, short
from gar.app.report.results import Method, ParameterScore
from gar.app.report.summary import INTEREST, method_of_interest, metrics_of, ranking, score
from gar.registry import FAMILIES, METRICS, NETWORKS

COMPONENTS = {"mae": "Mean absolute error", "diff": "Variance of errors", "diffnorm": "One minus correlation"}


def fold_scores(view: View) -> Plot:
    """Show every fold as a dot, and their mean as a marker."""
    metrics = metrics_of(view.problem)
    return Plot(
        name="scores",
        title="Test scores",
        caption=f"Each dot is a fold, each marker their mean. The best method is on top; the thin line is the mean of {INTEREST}.",
        panels=[Panel(partial(_draw_scores, view=view, metric=metric), _scores_alt(view, metric)) for metric in metrics],
        legend=(),
        cell=(252.0, 64.0 + 16.0 * max(4, len(view.methods))),
        left=82.0,
    )


def _draw_scores(axes: Axes, view: View, metric: str) -> None:
    order = ranking(view.methods, metric)[::-1]
    frame = view.range_of({method.name: np.asarray(method.scores[metric], float) for method in order})
    for y, method in enumerate(order):
        look, one = view.look(method), score(method, metric)
        if not frame[0] <= one.mean <= frame[1]:
            point_beyond(axes, y, one.mean, frame, look.light, look.key)
            continue
        points(axes, method.scores[metric], [y] * len(method.scores[metric]), look, markersize=3.6, alpha=0.45)
        size = 7.0 if look.is_of_interest else 5.5
        axes.plot([one.mean], [y], look.marker, color=look.light, markersize=size, zorder=5, gid=look.key)
        if look.is_of_interest:
            axes.axvline(one.mean, color=look.light, linewidth=0.8, alpha=0.6, gid=look.key)
    axes.set_yticks(range(len(order)), [printable(method.title, 16) for method in order])
    axes.set(xlim=frame, ylim=(-0.6, len(order) - 0.4))
    axes.grid(visible=False, axis="x")
    axes.spines["left"].set_visible(False)
    for text, method in zip(axes.get_yticklabels(), order, strict=True):
        if view.look(method).is_of_interest:
            text.set(fontweight="bold", color=view.look(method).light)
    few_ticks(axes, x=4, y=None)
    label(axes, METRICS[metric].title, _direction(metric))


def _direction(metric: str) -> str:
    return "larger is better" if METRICS[metric].larger_is_better else "smaller is better"


def _scores_alt(view: View, metric: str) -> str:
    order = ranking(view.methods, metric)
    parts = [f"{printable(one.title)} {short(score(one, metric).mean)} (sd {short(score(one, metric).sd)})" for one in order]
    return f"Test {METRICS[metric].title}, mean over folds, best first: {', '.join(parts)}."


def learning(view: View) -> list[Plot]:
    """Show validation scores after every epoch, or boosting round; a figure for every family of models."""
    methods = view.having("learning")
    families = list(dict.fromkeys(method.family for method in methods))
    plots = [_learning_of(view, [method for method in methods if method.family == family], family) for family in families]
    return [replace(plot, title=plot.group or "") if len(families) == 1 else plot for plot in plots if plot is not None]


def _learning_of(view: View, methods: Sequence[Method], family: str) -> Plot | None:
    """Show the learning curves of one family, without R2, which follows from the RMSE on the same rows."""
    metrics = [metric for metric in METRICS if metric != "r2" and any(method.learning.get(metric) for method in methods)]
    if not metrics:
        return None
    return Plot(
        name="learning" if family == NETWORKS else f"learning-{family}",
        title=FAMILIES[family].title if family in FAMILIES else printable(family),
        caption=f"Validation scores after every {_step(methods)}: the mean over the winners of the folds"
        f"{_smoothing(methods, 'learning')}.",
        panels=[
            _curve_panel(view, methods, metric, METRICS[metric].title, "learning", larger=METRICS[metric].larger_is_better)
            for metric in metrics
        ],
        legend=methods,
        cell=(300.0, 190.0),
        group="Learning curves",
    )


def components(view: View) -> Plot | None:
    """Show the three components of GAR's loss, measured for every method."""
    methods = view.having("components")
    names = [name for name in COMPONENTS if any(method.components.get(name) for method in methods)]
    if not names:
        return None
    return Plot(
        name="components",
        title="Loss components",
        caption="The three components of GAR's loss on validation rows after every epoch, measured for every method"
        f"{_smoothing(methods, 'components')}. Smaller is better.",
        panels=[_curve_panel(view, methods, name, COMPONENTS[name], "components", larger=False) for name in names],
        legend=methods,
    )


def _curve_panel(view: View, methods: Sequence[Method], name: str, title: str, field: str, *, larger: bool) -> Panel:
    curves = {
        method.name: np.asarray(getattr(method, field)[name], float) for method in methods if getattr(method, field).get(name)
    }
    shown = [method for method in methods if method.name in curves]
    step = _step(shown)
    described = ", ".join(_described(method, curves[method.name], step, larger=larger) for method in shown)
    return Panel(
        lambda axes: _draw_curves(axes, view, shown, curves, title, step, larger=larger), f"Validation {title}: {described}."
    )


def _step(methods: Sequence[Method]) -> str:
    """Return the name of a training step: boosted trees, which are never drawn together with networks, have rounds."""
    return "round" if any(method.family != NETWORKS for method in methods) else "epoch"


def _described(method: Method, values: np.ndarray, step: str, *, larger: bool) -> str:
    if not np.isfinite(values).any():
        return f"{printable(method.title)} has no values"
    best = int(np.nanargmax(values) if larger else np.nanargmin(values))
    reached = f"{printable(method.title)} best {short(values[best])} at {step} {best + 1} of {len(values)}"
    return f"{reached}, {short(values[-1])} at the end"


def _draw_curves(
    axes: Axes, view: View, methods: Sequence[Method], curves: Mapping[str, np.ndarray], title: str, step: str, *, larger: bool
) -> None:
    for method in methods:
        values = _smooth(curves[method.name], _window(len(curves[method.name])))
        some = evenly(len(values), view.steps)
        line(axes, some + 1, np.where(larger | (values > 0), values, np.nan)[some], view.look(method))
    axes.set_xlim(1, max(2, *(len(values) for values in curves.values())))
    low, high = _limits(view, curves, larger=larger)
    if not larger and low <= 0:
        low = 0.0
    if not larger and high > 4 * low > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_minor_locator(LogLocator(subs=(), numticks=1))
    axes.set_ylim(low, high)
    few_ticks(axes, x=None)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    label(axes, title, step)


def _smoothing(methods: Sequence[Method], field: str) -> str:
    window = _window(max(len(values) for method in methods for values in getattr(method, field).values()))
    return f", drawn as a running median of {window}" if window > 1 else ""


def _window(epochs: int) -> int:
    """Return an odd number of epochs, about a thirtieth of all."""
    return epochs // 60 * 2 + 1


def _smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Return the running median, which ignores a single outlying epoch."""
    padded = np.pad(values, window // 2, mode="edge")
    smoothed: np.ndarray = np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=-1)
    return smoothed


def _limits(view: View, curves: Mapping[str, np.ndarray], *, larger: bool) -> tuple[float, float]:
    """Return the range without the first tenth of the epochs, in which untrained networks would flatten the rest."""
    later = {name: values[len(values) // 10 :] for name, values in curves.items()}
    kept = {name: values[np.isfinite(values) & (larger | (values > 0))] for name, values in later.items()}
    ends = (0.05, 1.0) if larger else (0.0, 0.95)
    return view.range_of({name: np.quantile(values, ends) for name, values in kept.items() if len(values)})


def sensitivity(view: View) -> Plot | None:
    """Show the test scores with the parameter of a loss fixed at each of its values."""
    tuned = view.having("sensitivity")
    if not tuned:
        return None
    selected = view.problem.selected_by
    metrics = [metric for metric in dict.fromkeys((selected, "pearson", "mae")) if metric in metrics_of(view.problem)][:2]
    method = method_of_interest(view.problem)
    panels = [_parameter_panel(view, method, metric) for metric in metrics] if method is not None and method in tuned else []
    alt = f"Test {METRICS[selected].title} with the parameter fixed at each of its values: {_ranges(tuned, selected)}."
    panels.append(Panel(lambda axes: _draw_ranges(axes, view, tuned, selected), alt))
    return Plot(
        name="sensitivity",
        title="Sensitivity to the parameter",
        caption="The parameter of a loss is fixed at one value; learning rate, weight decay and epoch are selected as usual. "
        "Horizontal lines: the other methods, fully tuned.",
        panels=panels,
        legend=view.methods,
        cell=(266.0, 200.0),
        left=46.0,
    )


def _mean(entry: ParameterScore, metric: str) -> float:
    values = np.asarray(entry.scores.get(metric, ()), dtype=np.float64)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _by_value(method: Method) -> list[ParameterScore]:
    return sorted(method.sensitivity, key=lambda entry: entry.value)


def _parameter_panel(view: View, method: Method, metric: str) -> Panel:
    parts = [f"{short(entry.value)}: {short(_mean(entry, metric))}" for entry in _by_value(method)]
    alt = (
        f"Mean test {METRICS[metric].title} of {printable(method.title)} by {method.parameter}: {', '.join(parts)}. Rivals, tuned: "
    )
    rivals = [other for other in view.methods if other is not method]
    alt += ", ".join(f"{printable(one.title)} {short(score(one, metric).mean)}" for one in rivals) + "."
    return Panel(lambda axes: _draw_parameter(axes, view, method, metric), alt)


def _draw_parameter(axes: Axes, view: View, method: Method, metric: str) -> None:
    entries, look = _by_value(method), view.look(method)
    x = np.arange(len(entries))
    means = np.array([_mean(entry, metric) for entry in entries])
    sds = np.array([np.nanstd(entry.scores.get(metric, (np.nan,))) for entry in entries])
    for other in view.methods:
        if other is not method:
            shown = view.look(other)
            axes.axhline(score(other, metric).mean, color=shown.light, linestyle=shown.dash, linewidth=1.1, gid=shown.key)
    axes.fill_between(x, means - sds, means + sds, color=look.light, alpha=0.15, linewidth=0, gid=look.key)
    line(axes, x, means, look, marker=look.marker, markersize=6)
    axes.set_xticks(x, [short(entry.value) for entry in entries])
    tuned = {other.name: np.array([score(other, metric).mean]) for other in view.methods}
    axes.set_xlim(-0.35, len(entries) - 0.65)
    axes.set_ylim(*view.range_of(tuned | {method.name: np.concatenate([means - sds, means + sds])}))
    few_ticks(axes, x=None)
    label(axes, f"{printable(method.title)}: test {METRICS[metric].title} by {method.parameter}", method.parameter or "")


def _ranges(tuned: Sequence[Method], metric: str) -> str:
    described = []
    for method in tuned:
        means = [_mean(entry, metric) for entry in method.sensitivity]
        described.append(f"{printable(method.title)} {short(float(np.nanmin(means)))} to {short(float(np.nanmax(means)))}")
    return ", ".join(described)


def _draw_ranges(axes: Axes, view: View, tuned: Sequence[Method], metric: str) -> None:
    order = [method for method in ranking(view.methods, metric)[::-1] if method in tuned]
    frame = view.range_of({method.name: np.array([_mean(entry, metric) for entry in method.sensitivity]) for method in order})
    for y, method in enumerate(order):
        look, entries = view.look(method), _by_value(method)
        means = np.array([_mean(entry, metric) for entry in entries])
        if not frame[0] <= np.nanmedian(means) <= frame[1]:
            point_beyond(axes, y, float(np.nanmedian(means)), frame, look.light, look.key)
        axes.plot([min(means), max(means)], [y, y], color=look.light, linewidth=2.5, alpha=0.35, gid=look.key)
        axes.plot(means, [y] * len(means), "o", color=look.light, markersize=4, gid=look.key)
        values = ", ".join(short(entry.value) for entry in entries)
        name = f"{printable(method.title, 14)}: {printable(method.parameter or '', 14)} {values}"
        axes.text(0, y + 0.25, name, transform=axes.get_yaxis_transform(), fontsize=7, color=MUTED, gid=look.key)
    axes.set_yticks([])
    axes.set(xlim=frame, ylim=(-0.5, len(order) - 0.2))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    few_ticks(axes, x=4, y=None)
    label(axes, f"Range of test {METRICS[metric].title}", _direction(metric))
