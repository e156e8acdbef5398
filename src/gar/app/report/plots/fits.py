"""Functions of one variable: the truth, and what each method made of it."""

import numpy as np
from matplotlib.axes import Axes

from gar.app.report.plots.drawing import Panel, Plot, View, evenly, few_ticks, label, line
from gar.app.report.results import Curve, Method, Truth
from gar.app.report.style import MUTED, decimals, number, printable, short

_MOST = 200
"""Points of a drawn curve."""


def fits(view: View) -> Plot | None:
    """A panel for every method: truth, mean and band."""
    truth, methods = view.problem.truth, view.having("curve")
    if truth is None or not methods:
        return None
    return Plot(
        name="fits",
        title="Fits",
        caption="Grey: the truth. Colour: the mean prediction of the winners, and a band of one standard deviation around it.",
        panels=[_panel(view, method, truth, method.curve) for method in methods if method.curve],
        legend=methods,
        cell=(262.0, 136.0),
        left=34.0,
        bottom=20.0,
    )


def _panel(view: View, method: Method, truth: Truth, curve: Curve) -> Panel:
    x, y, mean, sd = (np.asarray(values, np.float64) for values in (truth.x, truth.y, curve.mean, curve.sd))
    unseen = ~np.asarray(truth.trained, bool)
    error = float(np.nanmean(np.abs(mean - y)[unseen] if unseen.any() else np.abs(mean - y)))
    reached = float(np.nanstd(mean) / (np.std(y) or 1.0))
    alt = f"{printable(method.title)}: the mean prediction misses the truth by {short(error)} on average where it was not trained, "
    alt += f"swings {short(100 * reached)} percent as widely, and has a mean band of {short(float(np.nanmean(sd)))}."

    def draw(axes: Axes) -> None:
        look, some = view.look(method), evenly(len(x), _MOST)
        axes.plot(x[some], y[some], color=MUTED, linewidth=2.4, alpha=0.45, zorder=2)
        axes.fill_between(x[some], (mean - sd)[some], (mean + sd)[some], color=look.light, alpha=0.22, linewidth=0, gid=look.key)
        line(axes, x[some], mean[some], look, linestyle="-", linewidth=1.3)
        room = 0.2 * float(np.ptp(y)) or 1.0
        axes.set(xlim=(x[0], x[-1]), ylim=(float(y.min() - room), float(y.max() + room)))
        few_ticks(axes, 6, 4)
        label(axes, printable(method.title, 22), color=look.light)
        axes.set_title(f"MAE of the mean {number(error, decimals([error]))}", loc="right", fontsize=8, fontweight="normal")

    return Panel(draw, alt, method)
