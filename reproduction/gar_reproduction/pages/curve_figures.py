"""Figures of curves: fits with their bands, slopes, and the study of depth."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from gar.app.report.plots.drawing import common_range, evenly, few_ticks, label, line, with_room
from gar.app.report.style import MUTED, looks_of, number
from gar_reproduction.curves import Fit
from gar_reproduction.experiments import LAYERS
from gar_reproduction.names import TASKS
from gar_reproduction.pages.blocks import PageFigure
from gar_reproduction.pages.figures import Draw, handle, panels

_MOST = 500
"""Points of a drawn curve at most."""


def fit_figure(experiment: str, task: str, fits: Mapping[str, tuple[str, Fit]], *, kind: str = "fits") -> PageFigure:
    """Draw a panel for every variant: the truth in grey, the mean of five seeds, and a band of one standard deviation.

    The last word of a variant is its loss.
    """
    draws = [_fit_panel(variant.rpartition("-")[2], title, fit) for variant, (title, fit) in fits.items()]
    titles = "; ".join(title for title, _ in fits.values())
    alt = f"{TASKS[task]}: truth, mean and standard deviation of five {kind} by {titles}."
    return PageFigure(f"{experiment}-{task}", alt, panels(draws, columns=2, cell=(4.6, 1.75)))


def _fit_panel(name: str, title: str, fit: Fit, *, is_small: bool = False) -> Draw:
    def draw(axes: Axes) -> None:
        look, some = looks_of([name])[name], evenly(len(fit.x), _MOST // 2 if is_small else _MOST)
        x, mean, sd = fit.x[some], fit.predictions.mean(0)[some], fit.predictions.std(0)[some]
        axes.plot(x, fit.y[some], color=MUTED, linewidth=1.2 if is_small else 2.2, alpha=0.45, zorder=2)
        axes.fill_between(x, mean - sd, mean + sd, color=look.light, alpha=0.22, linewidth=0)
        line(axes, x, mean, look, linestyle="-", linewidth=0.9 if is_small else 1.3)
        room = 0.2 * float(np.ptp(fit.y))
        axes.set(xlim=(x[0], x[-1]), ylim=(float(fit.y.min() - room), float(fit.y.max() + room)))
        few_ticks(axes, 3 if is_small else 6, 3 if is_small else 4)
        label(axes, title, color=look.light)
        axes.set_title(f"r {number(float(fit.correlation.mean()), 3)}", loc="right", fontsize=8, fontweight="normal")

    return draw


def slope_figure(fits: Mapping[str, Mapping[str, tuple[str, Fit]]]) -> PageFigure:
    """Draw cosine and relative error between slopes of fit and truth, a dot for every seed."""
    draws = []
    for task, found in fits.items():
        cosines = {name: (title, fit.slope_cosine) for name, (title, fit) in found.items()}
        errors = {name: (title, fit.slope_error) for name, (title, fit) in found.items()}
        draws.append(_dots(TASKS[task], "cosine of slopes (1 is perfect)", cosines))
        draws.append(_dots(TASKS[task], "relative error of slopes (0 is perfect)", errors))
    return PageFigure(
        "synthetic-slopes",
        "Slopes of the fits compared with those of the truth: cosine and relative error of five seeds, and their mean.",
        panels(draws, columns=2, cell=(4.0, 1.7)),
    )


def _dots(title: str, axis: str, values: Mapping[str, tuple[str, np.ndarray]]) -> Draw:
    def draw(axes: Axes) -> None:
        looks = looks_of(values)
        for index, (name, (_, one)) in enumerate(values.items()):
            axes.plot(one, np.full(len(one), index), "o", color=looks[name].light, markersize=3.5, alpha=0.6, markeredgewidth=0)
            axes.plot(one.mean(), index, "|", color=looks[name].light, markersize=13, markeredgewidth=2)
        axes.set_yticks(range(len(values)), [shown for shown, _ in values.values()])
        axes.set(ylim=(len(values) - 0.5, -0.5), xlim=with_room(*common_range({name: one for name, (_, one) in values.items()})))
        few_ticks(axes, 6, None)
        label(axes, title, axis)

    return draw


def depth_figures(fits: Mapping[tuple[str, int], tuple[str, Fit]], methods: Sequence[str]) -> list[PageFigure]:
    """Draw the correlation with the truth over the number of layers, and all fits by depth."""
    titles = {method: title for (method, _), (title, _) in fits.items()}
    looks = looks_of(methods)
    shown = [method for method in methods if method in titles]

    def draw(axes: Axes) -> None:
        for method in shown:
            layers = [depth for depth in LAYERS if (method, depth) in fits]
            values = [fits[method, depth][1].correlation for depth in layers]
            means = np.array([one.mean() for one in values])
            line(axes, layers, means, looks[method], marker=looks[method].marker, markersize=4)
            axes.vlines(
                layers, [one.min() for one in values], [one.max() for one in values], color=looks[method].light, linewidth=0.7
            )
        axes.set_xticks(LAYERS)
        few_ticks(axes, None, 6)
        label(axes, "Correlation with the truth", "hidden layers")

    keys = [(method, depth) for depth in LAYERS for method in shown if (method, depth) in fits]
    small = [_fit_panel(method, f"{titles[method]}, {depth}", fits[method, depth][1], is_small=True) for method, depth in keys]
    return [
        PageFigure(
            "depth-correlation",
            "Pearson correlation of fit and truth over the number of hidden layers: mean, least and greatest of five seeds.",
            panels([draw], columns=1, cell=(5.4, 2.9), legend=[handle(looks[method], titles[method]) for method in shown]),
        ),
        PageFigure(
            "depth-fits",
            "The sine, fitted by networks of 2 to 10 hidden layers: truth in grey, mean and standard deviation of five seeds.",
            panels(small, columns=len(shown), cell=(2.2, 1.25)),
        ),
    ]
