"""Training over time: validation scores, and the three components of GAR's loss."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from gar.app.report.plots.drawing import Panel, Plot, View, common_range, evenly, few_ticks, label, line, with_room
from gar.app.report.results import Method
from gar.app.report.style import FAMILIES, METRICS, printable, short

COMPONENTS = {"mae": "Mean absolute error", "diff": "Variance of errors", "diffnorm": "One minus correlation"}


def learning(view: View) -> list[Plot]:
    """Validation scores after every epoch, or round of boosting; a figure for every kind of model."""
    methods = view.having("learning")
    families = list(dict.fromkeys(method.family for method in methods))
    plots = [_learning_of(view, [method for method in methods if method.family == family], family) for family in families]
    return [replace(plot, title=plot.group or "") if len(families) == 1 else plot for plot in plots if plot is not None]


def _learning_of(view: View, methods: Sequence[Method], family: str) -> Plot | None:
    """(R2 is left out: on the same rows it follows from the RMSE.)"""
    metrics = [metric for metric in METRICS if metric != "r2" and any(method.learning.get(metric) for method in methods)]
    if not metrics:
        return None
    return Plot(
        name=f"learning-{family}" if family else "learning",
        title=FAMILIES.get(family, printable(family)),
        caption=f"Validation scores after every {_step(methods)}: the mean over the winners of the folds"
        f"{_smoothing(methods, 'learning')}.",
        panels=[_panel(view, methods, metric, METRICS[metric][0], "learning", larger=METRICS[metric][1]) for metric in metrics],
        legend=methods,
        cell=(300.0, 190.0),
        group="Learning curves",
    )


def components(view: View) -> Plot | None:
    """What GAR's loss is made of, measured for every method alike."""
    methods = view.having("components")
    names = [name for name in COMPONENTS if any(method.components.get(name) for method in methods)]
    if not names:
        return None
    return Plot(
        name="components",
        title="Loss components",
        caption="The three parts of GAR's loss on validation rows after every epoch, measured for every method alike"
        f"{_smoothing(methods, 'components')}. Smaller is better.",
        panels=[_panel(view, methods, name, COMPONENTS[name], "components", larger=False) for name in names],
        legend=methods,
    )


def _panel(view: View, methods: Sequence[Method], name: str, title: str, field: str, *, larger: bool) -> Panel:
    curves = {
        method.name: np.asarray(getattr(method, field)[name], float) for method in methods if getattr(method, field).get(name)
    }
    shown = [method for method in methods if method.name in curves]
    step = _step(shown)
    told = ", ".join(_tell(method, curves[method.name], step, larger=larger) for method in shown)
    return Panel(lambda axes: _draw(axes, view, shown, curves, title, step, larger=larger), f"Validation {title}: {told}.")


def _step(methods: Sequence[Method]) -> str:
    """What a step of training is called: boosted trees, which are never drawn with networks, have rounds."""
    return "round" if any(method.family for method in methods) else "epoch"


def _tell(method: Method, values: np.ndarray, step: str, *, larger: bool) -> str:
    if not np.isfinite(values).any():
        return f"{printable(method.title)} has no values"
    best = int(np.nanargmax(values) if larger else np.nanargmin(values))
    reached = f"{printable(method.title)} best {short(values[best])} at {step} {best + 1} of {len(values)}"
    return f"{reached}, {short(values[-1])} at the end"


def _draw(
    axes: Axes, view: View, methods: Sequence[Method], curves: Mapping[str, np.ndarray], title: str, step: str, *, larger: bool
) -> None:
    for method in methods:
        values = _smooth(curves[method.name], _window(len(curves[method.name])))
        some = evenly(len(values), view.steps)
        line(axes, some + 1, np.where(larger | (values > 0), values, np.nan)[some], view.look(method))
    axes.set_xlim(1, max(2, *(len(values) for values in curves.values())))
    low, high = _limits(curves, larger=larger)
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
    """An odd number of epochs, about a thirtieth of all."""
    return epochs // 60 * 2 + 1


def _smooth(values: np.ndarray, window: int) -> np.ndarray:
    """The running median, which a single wild epoch does not move."""
    padded = np.pad(values, window // 2, mode="edge")
    smoothed: np.ndarray = np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=-1)
    return smoothed


def _limits(curves: Mapping[str, np.ndarray], *, larger: bool) -> tuple[float, float]:
    """All but the first steps: a network that has learnt nothing yet would flatten everything that follows."""
    later = {name: values[len(values) // 10 :] for name, values in curves.items()}
    kept = {name: values[np.isfinite(values) & (larger | (values > 0))] for name, values in later.items()}
    ends = (0.05, 1.0) if larger else (0.0, 0.95)
    return with_room(*common_range({name: np.quantile(values, ends) for name, values in kept.items() if len(values)}))
