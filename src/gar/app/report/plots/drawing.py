"""What a figure is made of: panels on a grid of equal cells, so that a page can cut any panel out of the whole figure."""

import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gar.app.report.results import Method, Problem
from gar.app.report.style import CHAMPION, GRID, INK, MUTED, Look, decimals, number, printable

POINT = 72.0
_LEGEND_ROW = 15.0
_WIDEST = 1010.0

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so files look the same everywhere
    "font.size": 8,
    "text.color": INK,
    "text.parse_math": False,  # a column may be called $x
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.use_mathtext": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 2.5,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "svg.fonttype": "none",
    "svg.hashsalt": "gar",
    "path.simplify_threshold": 0.2,
}


@dataclass(frozen=True)
class View:
    """One problem as figures see it: methods in their order of importance, and what each looks like."""

    problem: Problem
    methods: Sequence[Method]
    looks: dict[str, Look]
    points: int = 2_000
    """The most points of a cloud."""
    steps: int = 130
    """The most points of a line over epochs."""

    def look(self, method: Method) -> Look:
        return self.looks[method.name]

    def having(self, part: str) -> list[Method]:
        """Methods with something in this field."""
        return [method for method in self.methods if getattr(method, part)]


@dataclass(frozen=True)
class Panel:
    """One pair of axes, how to fill them, and what they show in words and numbers."""

    draw: Callable[[Axes], None]
    alt: str
    method: Method | None = None
    """The one method that is shown, if it is one: the panel goes when the method is switched off."""


@dataclass(frozen=True)
class Plot:
    """A figure: panels of one size, and a legend of methods."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    legend: Sequence[Method]
    """Methods that can be switched off."""
    cell: tuple[float, float] = (252.0, 192.0)
    """Width and height of a panel in points."""
    left: float = 40.0
    """Points left of the axes, for the labels of ticks."""
    bottom: float = 34.0
    """Points below them."""
    group: str | None = None
    """Plots of one group are views of the same thing: a page shows one of them at a time."""

    @property
    def columns(self) -> int:
        most = max(1, int(_WIDEST // self.cell[0]))
        rows = math.ceil(len(self.panels) / most)
        return math.ceil(len(self.panels) / rows)

    def box(self, place: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel in the figure, in points from its upper left corner."""
        row, column = divmod(place, self.columns)
        return column * self.cell[0], row * self.cell[1], *self.cell


@contextmanager
def drawing() -> Iterator[None]:
    """Our style, whatever the user's own settings are; letters that the font lacks are no reason to warn."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        warnings.filterwarnings("ignore", message=".*Glyph.*missing from")
        yield


def draw(plot: Plot, view: View) -> Figure:
    """The whole figure; call it, and save it, within :func:`drawing`."""
    rows = math.ceil(len(plot.panels) / plot.columns)
    named = all(panel.method for panel in plot.panels)  # then every panel says whose it is
    handles = [] if named else [_handle(method, view.look(method)) for method in plot.legend]
    per_row = max(1, int(plot.columns * plot.cell[0] // 95))
    foot = _LEGEND_ROW * math.ceil(len(handles) / per_row) + 6 if handles else 0.0
    width, height = plot.columns * plot.cell[0], rows * plot.cell[1] + foot
    figure = Figure(figsize=(width / POINT, height / POINT), dpi=POINT)
    for place, panel in enumerate(plot.panels):
        left, top, cell_width, cell_height = plot.box(place)
        base = height - top - cell_height + plot.bottom
        inner = (left + plot.left, base, cell_width - plot.left - 10, cell_height - plot.bottom - 24)
        axes = figure.add_axes((inner[0] / width, inner[1] / height, inner[2] / width, inner[3] / height), gid=f"panel{place}")
        panel.draw(axes)
    if handles:
        figure.legend(handles=handles, loc="lower center", ncols=min(per_row, len(handles)), frameon=False, handlelength=2.6)
    return figure


def svg_of(figure: Figure) -> bytes:
    """Without dates or random names, so that equal results give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def png_of(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=180, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def line(axes: Axes, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, look: Look, **options: Any) -> None:
    """A line of one method, which the page can switch off."""
    chosen: dict[str, Any] = {
        "color": look.light,
        "linewidth": look.width,
        "linestyle": look.dash,
        "zorder": 4 if look.is_champion else 3,
    } | options
    axes.plot(x, y, gid=look.key, **chosen)


def points(axes: Axes, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, look: Look, **options: Any) -> None:
    chosen: dict[str, Any] = {
        "color": look.light,
        "markersize": 2.8,
        "marker": "o",
        "alpha": 0.6,
        "markeredgewidth": 0,
        "zorder": 3,
    } | options
    axes.plot(x, y, linestyle="", gid=look.key, **chosen)


def label(axes: Axes, title: str, x: str = "", y: str = "", *, color: str = INK) -> None:
    axes.set_title(printable(title, 44), color=color)
    axes.set_xlabel(printable(x, 52), labelpad=2)
    axes.set_ylabel(printable(y, 40), labelpad=2)


def evenly(count: int, most: int) -> np.ndarray:
    """At most so many places out of ``count``, first and last among them.

    Example:
        >>> evenly(10, 4)
        array([0, 3, 6, 9])
    """
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def common_range(groups: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Lowest and highest value of all methods but those that lie far off: one bad method must not flatten the others.

    The champion's values always count, however bad they are.
    """
    finite = {name: values[np.isfinite(values)] for name, values in groups.items()}
    finite = {name: values for name, values in finite.items() if len(values)}
    if not finite:
        return 0.0, 1.0
    low, high = _usual_range(list(finite.values()))
    champions = [values for name, values in finite.items() if name.partition("-")[0] == CHAMPION]
    shown = np.concatenate([*champions, [low]])
    return min(low, float(shown.min())), max(high, float(shown.max()))


def _usual_range(groups: Sequence[np.ndarray]) -> tuple[float, float]:
    lows, highs = np.array([group.min() for group in groups]), np.array([group.max() for group in groups])
    usual = float(np.median(highs - lows))
    return -_usual_maximum(-lows, usual), _usual_maximum(highs, usual)


def _usual_maximum(values: np.ndarray, least: float) -> float:
    """The largest value that is not far above the others (three times the distance of the quartiles)."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(values[values <= high + max(3 * (high - low), least)].max())


def with_room(low: float, high: float, share: float = 0.06) -> tuple[float, float]:
    """A little space at both ends."""
    room = share * (high - low) or 0.05 * abs(high) or 0.05
    return low - room, high + room


def point_beyond(axes: Axes, place: float, value: float, frame: tuple[float, float], color: str, key: str | None = None) -> None:
    """A value too far off to be drawn: its number at the edge, and an arrow."""
    is_right = value > frame[1]
    shown = number(value, decimals([value]))
    text, where, side = (f"{shown} →", 1.0, "right") if is_right else (f"← {shown}", 0.0, "left")
    axes.text(where, place, text, transform=axes.get_yaxis_transform(), ha=side, va="center", color=color, gid=key)


def few_ticks(axes: Axes, x: int | None = 5, y: int | None = 5) -> None:
    """At most about so many ticks on linear axes; None leaves an axis as it is."""
    for axis, scale, count in ((axes.xaxis, axes.get_xscale(), x), (axes.yaxis, axes.get_yscale(), y)):
        if scale == "linear" and count is not None:
            axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]))


def _handle(method: Method, look: Look) -> Line2D:
    return Line2D([], [], color=look.light, linewidth=look.width, linestyle=look.dash, label=printable(method.title, 16))
