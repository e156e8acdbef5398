"""How figures are drawn: the look of every method, panels on a grid of equal cells, and helpers that fill a panel."""

import io
import itertools
import math
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gar.app.report.formatting import decimals, number, printable
from gar.app.report.results import Method, Problem
from gar.registry import FAMILIES, LOSSES, METHOD_OF_INTEREST, NETWORKS, Style

ASSETS = Path(__file__).parent / "assets"
_STYLE = matplotlib.rc_params_from_file(ASSETS / "figures.mplstyle", use_default_template=False)
INK, MUTED, GRID = (_STYLE[name] for name in ("text.color", "axes.edgecolor", "grid.color"))
"""Colours of text, of axes and what is less important, and of grid lines; a dark page replaces them by its own."""
_POINT = 72.0
_LEGEND_ROW = 15.0
_WIDEST = 1010.0

FREE_STYLES = (
    Style(light="#5c6670", dark="#a7b1bc", dash=(0, (2, 1)), marker="X"),
    Style(light="#00788c", dark="#52c7db", dash=(0, (4, 1, 1, 1)), marker="*"),
    Style(light="#2f3b46", dark="#d5dbe1", dash=(0, (1, 1)), marker="d"),
    Style(light="#7f8fa3", dark="#8797ab", dash=(0, (8, 1.5)), marker="8"),
)
"""For losses without a style of their own, one after another."""


@dataclass(frozen=True, kw_only=True)
class Look(Style):
    """How one method is drawn in every figure and table."""

    key: str
    """Identifies the method in style sheets and figures; safe there, whatever the method is called."""
    is_of_interest: bool
    width: float
    """Width of lines; the method of interest stands out."""


def looks_of(losses: Iterable[str]) -> dict[str, Look]:
    """Return a look for every loss: its style in the registry, or the next free one.

    Example:
        >>> looks_of(["gar", "unregistered"])["unregistered"].key
        'other-0'
    """
    looks, free = {}, itertools.count()
    for loss in dict.fromkeys(losses):
        style, key = LOSSES[loss].style if loss in LOSSES else None, loss
        if style is None:
            number = next(free)
            style, key = FREE_STYLES[number % len(FREE_STYLES)], f"other-{number}"
        is_of_interest = loss == METHOD_OF_INTEREST
        looks[loss] = Look(**vars(style), key=key, is_of_interest=is_of_interest, width=2.1 if is_of_interest else 1.1)
    return looks


def method_looks(methods: Iterable[Method]) -> dict[str, Look]:
    """Return the look of every method by name: the style of its loss, with the dash and the marker of its family if it has any."""
    distinct = {method.name: method for method in methods}
    looks, unknown = looks_of(method.loss for method in distinct.values()), itertools.count()
    made = {}
    for name, method in distinct.items():
        look, family = looks[method.loss], FAMILIES.get(method.family)
        if family is None:  # results may come from elsewhere, with any name
            look = replace(look, key=f"{look.key}-other-{next(unknown)}")
        elif method.family != NETWORKS:
            dash, marker = family.dash or look.dash, family.marker or look.marker
            look = replace(look, key=f"{look.key}-{method.family}", dash=dash, marker=marker)
        made[name] = look
    return made


@dataclass(frozen=True)
class View:
    """One problem as figures show it: methods in their order of importance, the look of each, and the level of detail.

    A scatter plot has at most ``points`` points, and a line over epochs at most ``steps``.
    """

    problem: Problem
    methods: Sequence[Method]
    looks: Mapping[str, Look]
    points: int = 2_000
    steps: int = 130

    def look(self, method: Method) -> Look:
        return self.looks[method.name]

    def limits_of(self, groups: Mapping[str, np.ndarray]) -> tuple[float, float]:
        """Return the limits of an axis that shows these values by method name."""
        return with_room(*common_range(groups, always=[name for name, look in self.looks.items() if look.is_of_interest]))


@dataclass(frozen=True)
class Panel:
    """One pair of axes: how to fill them, and what they show in words and numbers."""

    draw: Callable[[Axes], None]
    alt: str
    method: Method | None = None
    """The only method that is shown, if there is only one: the panel is hidden together with the method."""


@dataclass(frozen=True)
class Plot:
    """A figure: panels, and a legend of methods that a reader can hide.

    All panels have the size of ``cell`` in points, with ``left`` and ``bottom`` points beside and below the axes for labels.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    legend: Sequence[Method]
    cell: tuple[float, float] = (252.0, 192.0)
    left: float = 40.0
    bottom: float = 34.0
    group: str | None = None
    """Plots of one group are views of the same data: a page shows one of them at a time."""

    @property
    def columns(self) -> int:
        most = max(1, int(_WIDEST // self.cell[0]))
        rows = math.ceil(len(self.panels) / most)
        return math.ceil(len(self.panels) / rows)

    def box(self, index: int) -> tuple[float, float, float, float]:
        """Return left, top, width and height of a panel in points from the upper left corner of the figure."""
        row, column = divmod(index, self.columns)
        return column * self.cell[0], row * self.cell[1], *self.cell


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the report's style, whatever the user's settings are, and without warnings about letters that the font lacks."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        warnings.filterwarnings("ignore", message=".*Glyph.*missing from")
        yield


def draw(plot: Plot, view: View) -> Figure:
    """Draw a whole figure, one pair of axes per panel; call this, and save the figure, within :func:`drawing`."""
    rows = math.ceil(len(plot.panels) / plot.columns)
    named = all(panel.method for panel in plot.panels)  # then the panels' titles replace a legend
    lines = [] if named else [(view.look(method), printable(method.title, 16)) for method in plot.legend]
    handles = [Line2D([], [], color=look.light, linewidth=look.width, linestyle=look.dash, label=title) for look, title in lines]
    per_row = max(1, int(plot.columns * plot.cell[0] // 95))
    foot = _LEGEND_ROW * math.ceil(len(handles) / per_row) + 6 if handles else 0.0
    width, height = plot.columns * plot.cell[0], rows * plot.cell[1] + foot
    figure = Figure(figsize=(width / _POINT, height / _POINT), dpi=_POINT)
    for index, panel in enumerate(plot.panels):
        left, top, cell_width, cell_height = plot.box(index)
        base = height - top - cell_height + plot.bottom
        inner = (left + plot.left, base, cell_width - plot.left - 10, cell_height - plot.bottom - 24)
        axes = figure.add_axes((inner[0] / width, inner[1] / height, inner[2] / width, inner[3] / height))
        axes.patch.set_visible(False)
        panel.draw(axes)
    if handles:
        figure.legend(handles=handles, loc="lower center", ncols=min(per_row, len(handles)), frameon=False, handlelength=2.6)
    return figure


def panel_seconds() -> float:
    """Return the seconds that one panel of a report takes on this machine now: it is drawn, saved twice, and drawn for the page."""
    for _ in range(2):  # the first figure of a process loads fonts
        start = time.monotonic()
        with drawing():
            figure = Figure(figsize=(3.5, 2.6), dpi=_POINT)
            figure.add_subplot().plot(np.linspace(0, 1, 100))
            svg_of(figure), png_of(figure)
    return 1.25 * (time.monotonic() - start)


def svg_of(figure: Figure) -> bytes:
    """Return an SVG file without dates or random names, so that equal results give equal bytes."""
    return _saved(figure, format="svg", transparent=True, metadata={"Date": None, "Creator": None})


def png_of(figure: Figure) -> bytes:
    """Return a PNG file on white; equal results give equal bytes."""
    return _saved(figure, format="png", dpi=180, facecolor="white", metadata={"Software": None})


def _saved(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


Values = Sequence[float] | np.ndarray


def line(axes: Axes, x: Values, y: Values, look: Look, **options: Any) -> None:
    """Draw a line of one method, which the page can hide."""
    chosen: dict[str, Any] = {"linewidth": look.width, "linestyle": look.dash, "zorder": 4 if look.is_of_interest else 3} | options
    axes.plot(x, y, color=look.light, gid=look.key, **chosen)


def points(axes: Axes, x: Values, y: Values, look: Look, **options: Any) -> None:
    """Draw the points of one method, which the page can hide."""
    chosen: dict[str, Any] = {"markersize": 2.8, "marker": "o", "alpha": 0.6, "markeredgewidth": 0, "zorder": 3} | options
    axes.plot(x, y, color=look.light, linestyle="", gid=look.key, **chosen)


def label(axes: Axes, title: str, x: str = "", y: str = "", *, color: str = INK) -> None:
    """Set the title and the labels of both axes."""
    axes.set_title(printable(title, 44), color=color)
    axes.set_xlabel(printable(x, 52), labelpad=2)
    axes.set_ylabel(printable(y, 40), labelpad=2)


def evenly(count: int, most: int) -> np.ndarray:
    """Return at most ``most`` indices below ``count``, evenly spaced, the first and the last among them.

    Example:
        >>> evenly(10, 4)
        array([0, 3, 6, 9])
    """
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def common_range(groups: Mapping[str, np.ndarray], always: Collection[str] = (METHOD_OF_INTEREST,)) -> tuple[float, float]:
    """Return the lowest and highest value of all groups without outlying groups: one bad method must not flatten the others.

    Groups whose names are in ``always`` count however far away they are.
    """
    finite = {name: values[np.isfinite(values)] for name, values in groups.items()}
    finite = {name: values for name, values in finite.items() if len(values)}
    if not finite:
        return 0.0, 1.0
    low, high = _usual_range(list(finite.values()))
    shown = np.concatenate([*(values for name, values in finite.items() if name in always), [low]])
    return min(low, float(shown.min())), max(high, float(shown.max()))


def _usual_range(groups: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the range of all groups but those with outlying ends."""
    lows, highs = np.array([group.min() for group in groups]), np.array([group.max() for group in groups])
    usual = float(np.median(highs - lows))
    return -_usual_maximum(-lows, usual), _usual_maximum(highs, usual)


def _usual_maximum(values: np.ndarray, least: float) -> float:
    """Return the largest value that is not far above the others (by three interquartile ranges)."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(values[values <= high + max(3 * (high - low), least)].max())


def with_room(low: float, high: float) -> tuple[float, float]:
    """Return a range with a margin at both ends."""
    room = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
    return low - room, high + room


def point_beyond(axes: Axes, y: float, value: float, frame: tuple[float, float], color: str, key: str | None = None) -> None:
    """Show a value that lies outside the axes: its number at the edge, with an arrow."""
    is_right = value > frame[1]
    shown = number(value, decimals([value]))
    text, where, side = (f"{shown} →", 1.0, "right") if is_right else (f"← {shown}", 0.0, "left")
    axes.text(where, y, text, transform=axes.get_yaxis_transform(), ha=side, va="center", color=color, gid=key)


def few_ticks(axes: Axes, x: int | None = 5, y: int | None = 5) -> None:
    """Set at most about ``x`` and ``y`` ticks on linear axes; None leaves an axis as it is."""
    for axis, scale, count in ((axes.xaxis, axes.get_xscale(), x), (axes.yaxis, axes.get_yscale(), y)):
        if scale == "linear" and count is not None:
            axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]))
