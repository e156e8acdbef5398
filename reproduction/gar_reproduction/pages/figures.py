"""Figures of scores: methods beside the paper's, alpha, batch sizes, running times. Equal records give equal PNG files."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from gar.app.report.plots.drawing import common_range, drawing, few_ticks, label, png_of, point_beyond, with_room
from gar.app.report.style import INK, MUTED, Look, looks_of, short
from gar.registry import LOSSES, METHOD_OF_INTEREST, METRICS, PAPER_LOSSES
from gar_reproduction import published
from gar_reproduction.names import TABLE_METRICS, TASKS
from gar_reproduction.pages.blocks import PageFigure
from gar_reproduction.scores import Result, Scores
from gar_reproduction.summary import Summary

Draw = Callable[[Axes], None]
Drawn = Result | published.Score
_LEGEND_WIDTH = 1.45
"""Inches of an entry of the legend."""


def panels(draws: Sequence[Draw], *, columns: int, cell: tuple[float, float] = (2.6, 2.1), legend: Sequence[Line2D] = ()) -> bytes:
    """Return a PNG file of equal panels, row by row.

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
        figure = Figure(figsize=(columns * cell[0], rows * cell[1] + foot), layout="constrained")
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
    """Return the entry of a method in a legend."""
    chosen: dict[str, Any] = {"linewidth": look.width, "linestyle": look.dash} | options
    return Line2D([], [], color=look.light, label=title, **chosen)


def paper_handle(**options: Any) -> Line2D:
    """Return the entry of the paper's scores in a legend."""
    chosen: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"} | options
    return Line2D([], [], color=MUTED, label="paper", **chosen)


_GAR = looks_of([METHOD_OF_INTEREST])[METHOD_OF_INTEREST]
_OURS = Line2D([], [], color=INK, linestyle="", marker="o", markersize=4, label="ours, mean and sd")


def score_figure(scores: Scores, experiment: str, metric: str) -> PageFigure:
    """Draw a panel for every task: ours in the methods' colours, the paper's hollow beside them."""
    tasks = scores.run_tasks
    draws = [_score_panel(scores, task, metric, is_first=index % 4 == 0) for index, task in enumerate(tasks)]
    legend = [_OURS, *([paper_handle()] if scores.paper else [])]
    better = "larger" if METRICS[metric].larger_is_better else "smaller"
    return PageFigure(
        f"{experiment}-{metric}",
        f"{METRICS[metric].title} ({better} is better) by method on {', '.join(TASKS[task] for task in tasks)}.",
        panels(draws, columns=4, cell=(2.5, 2.2), legend=legend),
    )


def _score_panel(scores: Scores, task: str, metric: str, *, is_first: bool) -> Draw:
    def draw(axes: Axes) -> None:
        shown = [cell for cell in scores.cells_of(task) if scores.has(cell.variant)]
        looks = looks_of(cell.variant for cell in shown)
        ours = {cell.variant: scores.ours.get((task, cell.variant, metric)) for cell in shown}
        paper = {f"{cell.variant} paper": scores.published(task, cell.variant, metric) for cell in shown}
        raised = 0.14 if scores.paper else 0.0  # to make room for the paper's
        frame = with_room(*common_range({name: _reach(one) for name, one in (ours | paper).items() if one is not None}))
        for index, (one, theirs) in enumerate(zip(ours.values(), paper.values(), strict=True)):
            color = looks[shown[index].variant].light
            _draw_score(axes, (index - raised, index - raised - 0.16), one, frame, color, {"markersize": 4, "linewidth": 1.2})
            _draw_score(axes, (index + 0.2, index + 0.3), theirs, frame, MUTED, _HOLLOW)
        axes.set_yticks(range(len(shown)), [cell.title if is_first else "" for cell in shown])
        axes.set(ylim=(len(shown) - 0.5, -0.5), xlim=frame)
        few_ticks(axes, 4, None)
        label(axes, TASKS[task], METRICS[metric].title)

    return draw


def _draw_score(
    axes: Axes, heights: tuple[float, float], one: Drawn | None, frame: tuple[float, float], color: str, style: dict[str, Any]
) -> None:
    """Draw a mean with its deviation, or its value at the edge if it is outside of the frame; ``heights`` are those of both."""
    if one is None:
        return
    if frame[0] <= one.mean <= frame[1]:
        axes.errorbar(one.mean, heights[0], xerr=one.sd, color=color, marker="o", **style)
    else:
        point_beyond(axes, heights[1], one.mean, frame, color)


def _reach(one: Drawn) -> np.ndarray:
    return np.array([one.mean - one.sd, one.mean + one.sd])


_HOLLOW: dict[str, Any] = {"markersize": 3.2, "markerfacecolor": "white", "linewidth": 0.7, "markeredgewidth": 0.7}


def alpha_figure(task: str, results: Mapping[str, Mapping[float, Result]]) -> PageFigure:
    """Draw a box for every alpha over the folds' test scores; ``results`` are by metric and alpha."""
    alphas = list(results[TABLE_METRICS[0]])
    return PageFigure(
        f"alpha-{task}",
        f"Test scores on {TASKS[task]} with alpha fixed at {len(alphas)} values from {short(alphas[0])} to {short(alphas[-1])}.",
        panels([_alpha_panel(by_alpha, metric) for metric, by_alpha in results.items()], columns=4, cell=(2.5, 2.1)),
    )


def _alpha_panel(results: Mapping[float, Result], metric: str) -> Draw:
    color = _GAR.light

    def draw(axes: Axes) -> None:
        lines = {"color": color, "linewidth": 0.9}
        axes.boxplot(
            [one.values for one in results.values()],
            positions=range(len(results)),
            widths=0.6,
            patch_artist=True,
            boxprops={"facecolor": f"{color}22", "edgecolor": color, "linewidth": 0.9},
            medianprops={"color": color, "linewidth": 1.6},
            whiskerprops=lines,
            capprops=lines,
            flierprops={"marker": "o", "markersize": 2.5, "markeredgecolor": color},
        )
        axes.set_xticks(range(len(results)), [short(alpha) for alpha in results], rotation=90, fontsize=7)
        few_ticks(axes, None, 5)
        label(axes, METRICS[metric].title, "alpha")

    return draw


def batch_figure(scores: Scores, task: str) -> PageFigure:
    """Draw each metric over batch sizes, beside the paper's where it has any."""
    sizes = [int(cell.variant) for cell in scores.cells_of(task) if (task, cell.variant) in scores.summaries]
    draws = [_batch_panel(scores, task, metric, sizes) for metric in TABLE_METRICS]
    has_paper = scores.published(task, str(sizes[0]), TABLE_METRICS[0]) is not None
    legend = [handle(_GAR, "ours"), *([paper_handle(linestyle="-")] if has_paper else [])]
    return PageFigure(
        f"batch-size-{task}",
        f"Test scores of GAR on {TASKS[task]} with batches of {', '.join(map(str, sizes))} rows.",
        panels(draws, columns=4, cell=(2.3, 1.9), legend=legend),
    )


def _batch_panel(scores: Scores, task: str, metric: str, sizes: Sequence[int]) -> Draw:
    def draw(axes: Axes) -> None:
        theirs = [(size, score) for size in sizes if (score := scores.published(task, str(size), metric))]
        if theirs:
            means, sds = [one.mean for _, one in theirs], [one.sd for _, one in theirs]
            axes.errorbar([size for size, _ in theirs], means, sds, color=MUTED, marker="o", zorder=2, **_HOLLOW)
        ours = [scores.ours[task, str(size), metric] for size in sizes]
        means, sds = [one.mean for one in ours], [one.sd for one in ours]
        axes.errorbar(sizes, means, sds, color=_GAR.light, marker=_GAR.marker, markersize=3.5, linewidth=1.4, zorder=3)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        few_ticks(axes, None, 5)
        label(axes, METRICS[metric].title, "batch size")

    return draw


def moments_figure(scores: Scores, task: str) -> PageFigure:
    """Draw mean and standard deviation of predictions during training by batch size; those of the labels are dashed."""
    found = {size: summary for (where, size), summary in scores.summaries.items() if where == task}
    colors = _ramp(list(found))
    titles = {"means": "Mean of predictions", "deviations": "Standard deviation of predictions"}
    draws = [_moment_panel(found, colors, kind, title) for kind, title in titles.items()]
    legend = [Line2D([], [], color=colors[size], linewidth=1.4, label=f"batch {size}") for size in found]
    legend.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=1, label="labels"))
    return PageFigure(
        f"batch-size-moments-{task}",
        f"Mean and standard deviation of predictions on the test rows of {TASKS[task]} after every epoch, by batch size.",
        panels(draws, columns=2, cell=(3.6, 2.2), legend=legend),
    )


def _moment_panel(found: Mapping[str, Summary], colors: Mapping[str, str], kind: str, title: str) -> Draw:
    def draw(axes: Axes) -> None:
        for size, summary in found.items():
            values = summary.extras[kind].astype(np.float64)
            epochs = np.arange(1, values.shape[1] + 1)
            mean, sd = np.nanmean(values, 0), np.nanstd(values, 0)
            axes.fill_between(epochs, mean - sd, mean + sd, color=colors[size], alpha=0.15, linewidth=0)
            axes.plot(epochs, mean, color=colors[size], linewidth=1.3)
        truth = float(np.mean(next(iter(found.values())).extras[f"label_{kind}"]))
        axes.axhline(truth, color=INK, linestyle=(0, (4, 2)), linewidth=1, zorder=4)
        few_ticks(axes)
        label(axes, title, "epoch")

    return draw


def _ramp(names: Sequence[str]) -> dict[str, str]:
    """Return colours from dark to light, which show an order."""
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(names)))
    return {name: matplotlib.colors.to_hex(shade) for name, shade in zip(names, shades, strict=True)}


def runtime_figure(times: Mapping[tuple[str, str], Mapping[str, Any]], tasks: Sequence[str]) -> PageFigure:
    """Draw the time per epoch of every method on a logarithmic axis."""
    draws = [_runtime_panel(times, task, is_first=index == 0) for index, task in enumerate(tasks)]
    ink: dict[str, Any] = {"linestyle": "", "color": INK, "markersize": 4}
    legend = [
        Line2D([], [], marker="o", label="one model", **ink),
        Line2D([], [], marker="|", label="its loss", **ink),
        Line2D([], [], marker="D", label="in a stack", **ink),
        paper_handle(),
    ]
    return PageFigure(
        "runtime",
        "Milliseconds per epoch: one model alone, its loss, and one model of a stack; hollow is the paper's, on its machine.",
        panels(draws, columns=len(tasks), cell=(2.3, 2.4), legend=legend),
    )


def _runtime_panel(times: Mapping[tuple[str, str], Mapping[str, Any]], task: str, *, is_first: bool) -> Draw:
    def draw(axes: Axes) -> None:
        looks, paper = looks_of(PAPER_LOSSES), published.running_times()
        for index, method in enumerate(PAPER_LOSSES):
            one, color = times.get((task, method)), looks[method].light
            if one is not None:
                axes.plot(1e3 * one["all"]["median"], index, "o", color=color, markersize=4.5)
                axes.plot(1e3 * one["loss"]["median"], index, "|", color=color, markersize=8, markeredgewidth=1.6)
                axes.plot(1e3 * one["stack"], index, "D", color=color, markersize=3.6)
            if (theirs := paper.get((task, method, "all"))) is not None:
                axes.plot(1e3 * theirs.mean, index, "o", color=MUTED, **_HOLLOW)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 60 * low else (1,)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks(range(len(PAPER_LOSSES)), [LOSSES[method].title if is_first else "" for method in PAPER_LOSSES])
        axes.set_ylim(len(PAPER_LOSSES) - 0.5, -0.5)
        label(axes, TASKS[task], "milliseconds per epoch")

    return draw
