"""The figures of tables: methods beside the paper's, alpha, batch sizes, running times."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from gar.app.report.drawing import INK, MUTED, common_range, few_ticks, label, looks_of, point_beyond, with_room
from gar.app.report.formatting import short
from gar.registry import METHOD_OF_INTEREST as CHAMPION
from gar.registry import METRICS as TITLES
from gar_reproduction import published
from gar_reproduction.digest import Digest
from gar_reproduction.names import METHODS, METRICS, TASKS
from gar_reproduction.pages.blocks import Figure
from gar_reproduction.pages.drawing import Draw, handle, panels, paper_handle
from gar_reproduction.pages.numbers import Scores
from gar_reproduction.scores import Result

_OURS = Line2D([], [], color=INK, linestyle="", marker="o", markersize=4, label="ours, mean and sd")


def score_figure(scores: Scores, experiment: str, metric: str) -> Figure:
    """Every task a panel: ours in the methods' colours, the paper's hollow beside them."""
    tasks = scores.run_tasks
    draws = [_score_panel(scores, task, metric, is_first=place % 4 == 0) for place, task in enumerate(tasks)]
    legend = [_OURS, *([paper_handle()] if scores.paper else [])]
    better = "larger" if TITLES[metric].larger_is_better else "smaller"
    return Figure(
        f"{experiment}-{metric}",
        f"{TITLES[metric].title} ({better} is better) by method on {', '.join(TASKS[task] for task in tasks)}.",
        panels(draws, columns=4, cell=(2.5, 2.2), legend=legend),
    )


def _score_panel(scores: Scores, task: str, metric: str, *, is_first: bool) -> Draw:
    def draw(axes: Axes) -> None:
        shown = [unit for unit in scores.units_of(task) if scores.has(unit.variant)]
        looks = looks_of(unit.variant for unit in shown)
        ours = {unit.variant: scores.ours.get((task, unit.variant, metric)) for unit in shown}
        paper = {f"{unit.variant} paper": scores.published(task, unit.variant, metric) for unit in shown}
        raised = 0.14 if scores.paper else 0.0  # to make room for the paper's
        frame = with_room(*common_range({name: _reach(one) for name, one in (ours | paper).items() if one is not None}))
        for place, (one, theirs) in enumerate(zip(ours.values(), paper.values(), strict=True)):
            color = looks[shown[place].variant].light
            _draw_score(axes, (place - raised, place - raised - 0.16), one, frame, color, {"markersize": 4, "linewidth": 1.2})
            _draw_score(axes, (place + 0.2, place + 0.3), theirs, frame, MUTED, _HOLLOW)
        axes.set_yticks(range(len(shown)), [unit.title for unit in shown] if is_first else [""] * len(shown))
        axes.set(ylim=(len(shown) - 0.5, -0.5), xlim=frame)
        few_ticks(axes, 4, None)
        label(axes, TASKS[task], TITLES[metric].title)

    return draw


def _draw_score(
    axes: Axes,
    places: tuple[float, float],
    one: Result | published.Score | None,
    frame: tuple[float, float],
    color: str,
    style: dict[str, Any],
) -> None:
    """``places`` are those of a point and, if it is too far off to be drawn, of its number, which needs more room."""
    if one is None:
        return
    if frame[0] <= one.mean <= frame[1]:
        axes.errorbar(one.mean, places[0], xerr=one.sd, color=color, marker="o", **style)
    else:
        point_beyond(axes, places[1], one.mean, frame, color)


def _reach(one: Result | published.Score) -> np.ndarray:
    return np.array([one.mean - one.sd, one.mean + one.sd])


_HOLLOW: dict[str, Any] = {"markersize": 3.2, "markerfacecolor": "white", "linewidth": 0.7, "markeredgewidth": 0.7}


def alpha_figure(task: str, results: Mapping[str, Mapping[float, Result]]) -> Figure:
    """A box for every alpha over the folds' test values; ``results`` are those of every metric by alpha."""
    alphas = list(results[METRICS[0]])
    return Figure(
        f"alpha-{task}",
        f"Test scores on {TASKS[task]} with alpha held at {len(alphas)} values from {short(alphas[0])} to {short(alphas[-1])}.",
        panels([_alpha_panel(held, metric) for metric, held in results.items()], columns=4, cell=(2.5, 2.1)),
    )


def _alpha_panel(results: Mapping[float, Result], metric: str) -> Draw:
    color = looks_of([CHAMPION])[CHAMPION].light

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
        label(axes, TITLES[metric].title, "alpha")

    return draw


def batch_figure(scores: Scores, task: str) -> Figure:
    """Each metric over batch sizes, the paper's beside it where it has any."""
    sizes = [int(unit.variant) for unit in scores.units_of(task) if (task, unit.variant) in scores.digests]
    draws = [_batch_panel(scores, task, metric, sizes) for metric in METRICS]
    has_paper = scores.published(task, str(sizes[0]), METRICS[0]) is not None
    legend = [handle(looks_of([CHAMPION])[CHAMPION], "ours"), *([paper_handle(linestyle="-")] if has_paper else [])]
    return Figure(
        f"batch-size-{task}",
        f"Test scores of GAR on {TASKS[task]} with batches of {', '.join(map(str, sizes))} rows.",
        panels(draws, columns=4, cell=(2.3, 1.9), legend=legend),
    )


def _batch_panel(scores: Scores, task: str, metric: str, sizes: Sequence[int]) -> Draw:
    look = looks_of([CHAMPION])[CHAMPION]

    def draw(axes: Axes) -> None:
        theirs = [(size, score) for size in sizes if (score := scores.published(task, str(size), metric))]
        if theirs:
            means, sds = [one.mean for _, one in theirs], [one.sd for _, one in theirs]
            axes.errorbar([size for size, _ in theirs], means, sds, color=MUTED, marker="o", zorder=2, **_HOLLOW)
        ours = [scores.ours[task, str(size), metric] for size in sizes]
        means, sds = [one.mean for one in ours], [one.sd for one in ours]
        axes.errorbar(sizes, means, sds, color=look.light, marker=look.marker, markersize=3.5, linewidth=1.4, zorder=3)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        few_ticks(axes, None, 5)
        label(axes, TITLES[metric].title, "batch size")

    return draw


def moments_figure(scores: Scores, task: str) -> Figure:
    """Mean and standard deviation of predictions while training, batch size by batch size; dashed is that of the labels."""
    found = {size: digest for (where, size), digest in scores.digests.items() if where == task}
    colors = _ramp(list(found))
    titles = {"means": "Mean of predictions", "deviations": "Standard deviation of predictions"}
    draws = [_moment_panel(found, colors, kind, title) for kind, title in titles.items()]
    legend = [Line2D([], [], color=colors[size], linewidth=1.4, label=f"batch {size}") for size in found]
    legend.append(Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=1, label="labels"))
    return Figure(
        f"batch-size-moments-{task}",
        f"Mean and standard deviation of predictions on the test rows of {TASKS[task]} after every epoch, by batch size.",
        panels(draws, columns=2, cell=(3.6, 2.2), legend=legend),
    )


def _moment_panel(found: Mapping[str, Digest], colors: Mapping[str, str], kind: str, title: str) -> Draw:
    def draw(axes: Axes) -> None:
        for size, digest in found.items():
            values = digest.extras[kind].astype(np.float64)
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
    """From dark to light, so that an order shows."""
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(names)))
    return {name: matplotlib.colors.to_hex(shade) for name, shade in zip(names, shades, strict=True)}


def runtime_figure(times: Mapping[tuple[str, str], Mapping[str, Any]], tasks: Sequence[str]) -> Figure:
    """Time per epoch of every method on a logarithmic axis."""
    draws = [_runtime_panel(times, task, is_first=place == 0) for place, task in enumerate(tasks)]
    ink: dict[str, Any] = {"linestyle": "", "color": INK, "markersize": 4}
    legend = [
        Line2D([], [], marker="o", label="one model", **ink),
        Line2D([], [], marker="|", label="its loss", **ink),
        Line2D([], [], marker="D", label="in a stack", **ink),
        paper_handle(),
    ]
    return Figure(
        "runtime",
        "Milliseconds per epoch: one model alone, its loss, and one model of a stack; hollow is the paper's, on its machine.",
        panels(draws, columns=len(tasks), cell=(2.3, 2.4), legend=legend),
    )


def _runtime_panel(times: Mapping[tuple[str, str], Mapping[str, Any]], task: str, *, is_first: bool) -> Draw:
    def draw(axes: Axes) -> None:
        looks, paper = looks_of(METHODS), published.running_times()
        for place, method in enumerate(METHODS):
            one, color = times.get((task, method)), looks[method].light
            if one is not None:
                axes.plot(1e3 * one["all"]["median"], place, "o", color=color, markersize=4.5)
                axes.plot(1e3 * one["loss"]["median"], place, "|", color=color, markersize=8, markeredgewidth=1.6)
                axes.plot(1e3 * one["stack"], place, "D", color=color, markersize=3.6)
            if (theirs := paper.get((task, method, "all"))) is not None:
                axes.plot(1e3 * theirs.mean, place, "o", color=MUTED, **_HOLLOW)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 60 * low else (1,)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks(range(len(METHODS)), list(METHODS.values()) if is_first else [""] * len(METHODS))
        axes.set_ylim(len(METHODS) - 0.5, -0.5)
        label(axes, TASKS[task], "milliseconds per epoch")

    return draw
