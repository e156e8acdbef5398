"""Figures of the pages: equal panels on white, as pictures, so that a file looks the same everywhere and on every run."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from gar.app.report.drawing import MUTED, Look, drawing, png_of

Draw = Callable[[Axes], None]
_LEGEND_WIDTH = 1.45
"""Inches of an entry."""


def panels(
    draws: Sequence[Draw],
    *,
    columns: int,
    cell: tuple[float, float] = (2.6, 2.1),
    legend: Sequence[Line2D] = (),
) -> bytes:
    """A PNG file of panels, row by row.

    Args:
        draws: each fills one panel.
        columns: panels side by side.
        cell: width and height of a panel in inches.
        legend: below all panels.
    """
    columns = min(columns, len(draws))
    rows = math.ceil(len(draws) / columns)
    per_row = max(2, int(columns * cell[0] // _LEGEND_WIDTH))
    foot = 0.3 * math.ceil(len(legend) / per_row)
    with drawing():
        figure = Drawing(figsize=(columns * cell[0], rows * cell[1] + foot), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for one, draw in zip(axes, draws, strict=False):
            draw(one)
        for one in axes[len(draws) :]:
            one.remove()
        if legend:
            options: dict[str, Any] = {"frameon": False, "handlelength": 2.6}
            figure.legend(handles=list(legend), loc="outside lower center", ncols=min(per_row, len(legend)), **options)
        return png_of(figure)


def handle(look: Look, title: str, **options: Any) -> Line2D:
    """For a legend: the line of a method."""
    chosen: dict[str, Any] = {"linewidth": look.width, "linestyle": look.dash} | options
    return Line2D([], [], color=look.light, label=title, **chosen)


def paper_handle(**options: Any) -> Line2D:
    """For a legend: what the paper published."""
    chosen: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"} | options
    return Line2D([], [], color=MUTED, label="paper", **chosen)
