"""Figures of scores and curves: folds side by side, fitted functions, learning, components of the loss, and sensitivity."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from gar.app.report.drawing import MUTED, Panel, Plot, View, evenly, few_ticks, label, line, point_beyond, points
from gar.app.report.formatting import decimals, number, printable, short
from gar.app.report.results import Curve, Method, Truth
from gar.app.report.summary import INTEREST, method_of_interest, metric_title, metrics_of, ranking, score
from gar.registry import FAMILIES, METRICS, NETWORKS

COMPONENTS = {"mae": "Mean absolute error", "diff": "Variance of errors", "diffnorm": "One minus correlation"}
_FIT_POINTS = 200
"""Points of a drawn fit."""


def fold_scores(view: View) -> Iterator[Plot]:
    """Show every fold as a dot, and their mean as a marker."""
    caption = f"Each dot is a fold, each marker their mean. The best method is on top; the thin line is the mean of {INTEREST}."
    panels = [_score_panel(view, metric) for metric in metrics_of(view.problem)]
    height = 64.0 + 16.0 * max(4, len(view.methods))
    yield Plot("scores", "Test scores", caption, panels, legend=(), cell=(252.0, height), left=82.0)


def _score_panel(view: View, metric: str) -> Panel:
    title, direction, order = metric_title(view.problem, metric), _direction(metric), ranking(view.methods, metric)
    parts = [f"{printable(one.title)} {short(score(one, metric).mean)} (sd {short(score(one, metric).sd)})" for one in order]

    def draw(axes: Axes) -> None:
        limits = view.limits_of({method.name: np.asarray(method.scores[metric], float) for method in order})
        for y, method in enumerate(reversed(order)):
            look, mean = view.look(method), score(method, metric).mean
            if not limits[0] <= mean <= limits[1]:
                point_beyond(axes, y, mean, limits, look.light, look.key)
                continue
            points(axes, method.scores[metric], [y] * len(method.scores[metric]), look, markersize=3.6, alpha=0.45)
            size = 7.0 if look.is_of_interest else 5.5
            axes.plot([mean], [y], look.marker, color=look.light, markersize=size, zorder=5, gid=look.key)
            if look.is_of_interest:
                axes.axvline(mean, color=look.light, linewidth=0.8, alpha=0.6, gid=look.key)
        axes.set_yticks(range(len(order)), [printable(method.title, 16) for method in reversed(order)])
        for text, method in zip(axes.get_yticklabels(), reversed(order), strict=True):
            if view.look(method).is_of_interest:
                text.set(fontweight="bold", color=view.look(method).light)
        axes.set(xlim=limits, ylim=(-0.6, len(order) - 0.4))
        axes.grid(visible=False, axis="x")
        axes.spines["left"].set_visible(False)
        few_ticks(axes, x=4, y=None)
        label(axes, title, direction)

    return Panel(draw, f"Test {title}, mean over folds, best first: {', '.join(parts)}.")


def _direction(metric: str) -> str:
    return f"{'larger' if METRICS[metric].larger_is_better else 'smaller'} is better"


def fits(view: View) -> Iterator[Plot]:
    """Show truth, mean and band in a panel for every method."""
    truth, methods = view.problem.truth, [method for method in view.methods if method.curve]
    if truth is None or not methods:
        return
    caption = "Grey: the truth. Colour: the mean prediction of the winners, with a band of one standard deviation."
    panels = [_fit_panel(view, method, truth, method.curve) for method in methods if method.curve]
    yield Plot("fits", "Fits", caption, panels, legend=methods, cell=(262.0, 136.0), left=34.0, bottom=20.0)


def _fit_panel(view: View, method: Method, truth: Truth, curve: Curve) -> Panel:
    x, y, mean, sd = (np.asarray(values, np.float64) for values in (truth.x, truth.y, curve.mean, curve.sd))
    unseen = ~np.asarray(truth.trained, bool)
    error = float(np.nanmean(np.abs(mean - y)[unseen] if unseen.any() else np.abs(mean - y)))
    reached = float(np.nanstd(mean) / (np.std(y) or 1.0))
    alt = f"{printable(method.title)}: mean absolute error {short(error)} of the mean prediction outside the training points, with "
    alt += f"{short(100 * reached)} percent of the truth's standard deviation, and a mean band of {short(float(np.nanmean(sd)))}."

    def draw(axes: Axes) -> None:
        look, some = view.look(method), evenly(len(x), _FIT_POINTS)
        axes.plot(x[some], y[some], color=MUTED, linewidth=2.4, alpha=0.45, zorder=2)
        axes.fill_between(x[some], (mean - sd)[some], (mean + sd)[some], color=look.light, alpha=0.22, linewidth=0, gid=look.key)
        line(axes, x[some], mean[some], look, linestyle="-", linewidth=1.3)
        room = 0.2 * float(np.ptp(y)) or 1.0
        axes.set(xlim=(x[0], x[-1]), ylim=(float(y.min() - room), float(y.max() + room)))
        few_ticks(axes, 6, 4)
        label(axes, printable(method.title, 22), color=look.light)
        axes.set_title(f"MAE of the mean {number(error, decimals([error]))}", loc="right", fontsize=8, fontweight="normal")

    return Panel(draw, alt, method)


def learning(view: View) -> Iterator[Plot]:
    """Show validation scores after every epoch, or boosting round; a figure for every family of models."""
    group, learned = "Learning curves", [method for method in view.methods if method.learning]
    families = list(dict.fromkeys(method.family for method in learned))
    for family in families:
        methods = [method for method in learned if method.family == family]
        name = "learning" if family == NETWORKS else f"learning-{family}"
        title = FAMILIES[family].title if family in FAMILIES else printable(family)
        smoothing = _smoothing(method.learning for method in methods)
        caption = f"Validation scores after every {_step(methods)}: the mean over the winners of the folds{smoothing}."
        # R2 follows from the RMSE on the same rows.
        metrics = [metric for metric in METRICS if metric != "r2" and any(method.learning.get(metric) for method in methods)]
        curves = [(METRICS[metric], {method.name: method.learning.get(metric, ()) for method in methods}) for metric in metrics]
        panels = [_curve_panel(view, methods, found, spec.title, larger=spec.larger_is_better) for spec, found in curves]
        if panels:
            title = title if len(families) > 1 else group
            yield Plot(name, title, caption, panels, legend=methods, cell=(300.0, 190.0), group=group)


def components(view: View) -> Iterator[Plot]:
    """Show the three components of GAR's loss, measured for every method."""
    methods = [method for method in view.methods if method.components]
    curves = {name: {method.name: method.components.get(name, ()) for method in methods} for name in COMPONENTS}
    shown = {name: by_method for name, by_method in curves.items() if any(by_method.values())}
    if not shown:
        return
    smoothing = _smoothing(method.components for method in methods)
    caption = "The three components of GAR's loss on validation rows after every epoch, measured for every method"
    panels = [_curve_panel(view, methods, by_method, COMPONENTS[name], larger=False) for name, by_method in shown.items()]
    yield Plot("components", "Loss components", f"{caption}{smoothing}. Smaller is better.", panels, legend=methods)


def _smoothing(fields: Iterable[Mapping[str, Sequence[float]]]) -> str:
    window = _window(max(len(values) for field in fields for values in field.values()))
    return f", drawn as a running median of {window}" if window > 1 else ""


def _window(epochs: int) -> int:
    """Return an odd number of epochs, about a thirtieth of all."""
    return epochs // 60 * 2 + 1


def _step(methods: Sequence[Method]) -> str:
    """Return the name of a training step: boosted trees, which are never drawn together with networks, have rounds."""
    return "round" if any(method.family != NETWORKS for method in methods) else "epoch"


def _curve_panel(view: View, methods: Sequence[Method], found: Mapping[str, Sequence[float]], title: str, *, larger: bool) -> Panel:
    curves = {name: np.asarray(values, float) for name, values in found.items() if values}
    shown, step = [method for method in methods if method.name in curves], _step(methods)
    described = ", ".join(_described(method, curves[method.name], step, larger=larger) for method in shown)

    def draw(axes: Axes) -> None:
        low, high = _limits(view, curves, larger=larger)
        for method in shown:
            values = _smooth(curves[method.name], _window(len(curves[method.name])))
            some = evenly(len(values), view.steps)
            line(axes, some + 1, np.where(larger | (values > 0), values, np.nan)[some], view.look(method))
        axes.set_xlim(1, max(2, *(len(values) for values in curves.values())))
        if not larger and high > 4 * low > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            axes.yaxis.set_minor_locator(LogLocator(subs=(), numticks=1))
        axes.set_ylim(low, high)
        few_ticks(axes, x=None)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        label(axes, title, step)

    return Panel(draw, f"Validation {title}: {described}.")


def _described(method: Method, values: np.ndarray, step: str, *, larger: bool) -> str:
    if not np.isfinite(values).any():
        return f"{printable(method.title)} has no values"
    best = int(np.nanargmax(values) if larger else np.nanargmin(values))
    reached = f"{printable(method.title)} best {short(values[best])} at {step} {best + 1} of {len(values)}"
    return f"{reached}, {short(values[-1])} at the end"


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
    low, high = view.limits_of({name: np.quantile(values, ends) for name, values in kept.items() if len(values)})
    return low if larger else max(low, 0.0), high


def sensitivity(view: View) -> Iterator[Plot]:
    """Show the test scores with the parameter of a loss fixed at each of its values."""
    tuned = [method for method in view.methods if method.sensitivity]
    if not tuned:
        return
    selected, method = view.problem.selected_by, method_of_interest(view.problem)
    metrics = [metric for metric in dict.fromkeys((selected, "pearson", "mae")) if metric in metrics_of(view.problem)][:2]
    panels = [_parameter_panel(view, method, metric) for metric in metrics] if method is not None and method in tuned else []
    panels.append(_range_panel(view, tuned, selected))
    caption = "The parameter of a loss is fixed at one value; learning rate, weight decay and epoch are selected as usual. "
    caption += "Horizontal lines: the other methods, fully tuned."
    yield Plot("sensitivity", "Sensitivity to the parameter", caption, panels, view.methods, cell=(266.0, 200.0), left=46.0)


def _by_value(method: Method, metric: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the values of the parameter in ascending order, with mean and standard deviation of the test score."""
    entries = sorted(method.sensitivity, key=lambda entry: entry.value)
    scores = [score(entry, metric) for entry in entries]
    return [short(entry.value) for entry in entries], np.array([one.mean for one in scores]), np.array([one.sd for one in scores])


def _parameter_panel(view: View, method: Method, metric: str) -> Panel:
    values, means, sds = _by_value(method, metric)
    rivals = [(other, score(other, metric).mean) for other in view.methods if other is not method]
    of = f"test {metric_title(view.problem, metric)}"
    alt = f"Mean {of} of {printable(method.title)} by {method.parameter}: "
    alt += ", ".join(f"{value}: {short(mean)}" for value, mean in zip(values, means, strict=True)) + ". Rivals, tuned: "
    alt += ", ".join(f"{printable(other.title)} {short(mean)}" for other, mean in rivals) + "."

    def draw(axes: Axes) -> None:
        look, x = view.look(method), np.arange(len(values))
        for other, mean in rivals:
            shown = view.look(other)
            axes.axhline(mean, color=shown.light, linestyle=shown.dash, linewidth=1.1, gid=shown.key)
        axes.fill_between(x, means - sds, means + sds, color=look.light, alpha=0.15, linewidth=0, gid=look.key)
        line(axes, x, means, look, marker=look.marker, markersize=6)
        axes.set_xticks(x, values)
        axes.set_xlim(-0.35, len(values) - 0.65)
        tuned = {other.name: np.array([mean]) for other, mean in rivals}
        axes.set_ylim(*view.limits_of(tuned | {method.name: np.concatenate([means - sds, means + sds])}))
        few_ticks(axes, x=None)
        label(axes, f"{printable(method.title)}: {of} by {method.parameter}", method.parameter or "")

    return Panel(draw, alt)


def _range_panel(view: View, tuned: Sequence[Method], metric: str) -> Panel:
    order = [method for method in ranking(view.methods, metric)[::-1] if method in tuned]
    found = {method.name: _by_value(method, metric) for method in tuned}
    ends = {name: (short(float(np.nanmin(means))), short(float(np.nanmax(means)))) for name, (_, means, _) in found.items()}
    described = ", ".join(f"{printable(method.title)} {' to '.join(ends[method.name])}" for method in tuned)
    direction = _direction(metric)

    def draw(axes: Axes) -> None:
        limits = view.limits_of({method.name: found[method.name][1] for method in order})
        for y, method in enumerate(order):
            look, (values, means, _) = view.look(method), found[method.name]
            if not limits[0] <= np.nanmedian(means) <= limits[1]:
                point_beyond(axes, y, float(np.nanmedian(means)), limits, look.light, look.key)
            axes.plot([min(means), max(means)], [y, y], color=look.light, linewidth=2.5, alpha=0.35, gid=look.key)
            axes.plot(means, [y] * len(means), "o", color=look.light, markersize=4, gid=look.key)
            name = f"{printable(method.title, 14)}: {printable(method.parameter or '', 14)} {', '.join(values)}"
            axes.text(0, y + 0.25, name, transform=axes.get_yaxis_transform(), fontsize=7, color=MUTED, gid=look.key)
        axes.set_yticks([])
        axes.set(xlim=limits, ylim=(-0.5, len(order) - 0.2))
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        few_ticks(axes, x=4, y=None)
        label(axes, f"Range of test {METRICS[metric].title}", direction)

    return Panel(draw, f"Test {METRICS[metric].title} with the parameter fixed at each of its values: {described}.")
