"""Scores of the folds, side by side, and how much the parameter of a loss matters."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from gar.app.report.plots.drawing import Panel, Plot, View, common_range, few_ticks, label, line, point_beyond, with_room
from gar.app.report.results import Method, ParameterScore
from gar.app.report.style import METRICS, MUTED, printable, short
from gar.app.report.summary import champion_of, metrics_of, ranking, score


def fold_scores(view: View) -> Plot:
    """Every fold as a dot, their mean as a bar."""
    metrics = metrics_of(view.problem)
    return Plot(
        name="scores",
        title="Test scores",
        caption="Each dot is a fold, the marker their mean. The best method stands on top; the thin line continues GAR's mean.",
        panels=[Panel(partial(_draw_scores, view=view, metric=metric), _scores_alt(view, metric)) for metric in metrics],
        legend=(),
        cell=(252.0, 64.0 + 16.0 * max(4, len(view.methods))),
        left=82.0,
    )


def _draw_scores(axes: Axes, view: View, metric: str) -> None:
    order = ranking(view.methods, metric)[::-1]
    frame = with_room(*common_range({method.name: np.asarray(method.scores[metric], float) for method in order}))
    for place, method in enumerate(order):
        look, one = view.look(method), score(method, metric)
        if not frame[0] <= one.mean <= frame[1]:
            point_beyond(axes, place, one.mean, frame, look.light, look.key)
            continue
        axes.plot(method.scores[metric], [place] * len(method.scores[metric]), "o", color=look.light, markersize=3.6, alpha=0.45,
                  markeredgewidth=0, gid=look.key)  # fmt: skip
        axes.plot(
            [one.mean], [place], look.marker, color=look.light, markersize=7 if look.is_champion else 5.5, zorder=5, gid=look.key
        )
        if look.is_champion:
            axes.axvline(one.mean, color=look.light, linewidth=0.8, alpha=0.6, gid=look.key)
    axes.set_yticks(range(len(order)), [printable(method.title, 16) for method in order])
    axes.set(xlim=frame, ylim=(-0.6, len(order) - 0.4))
    axes.grid(visible=False, axis="x")
    axes.spines["left"].set_visible(False)
    for text, method in zip(axes.get_yticklabels(), order, strict=True):
        if view.look(method).is_champion:
            text.set(fontweight="bold", color=view.look(method).light)
    title, larger = METRICS[metric]
    few_ticks(axes, x=4, y=None)
    label(axes, title, "larger is better" if larger else "smaller is better")


def _scores_alt(view: View, metric: str) -> str:
    order = ranking(view.methods, metric)
    parts = [f"{printable(one.title)} {short(score(one, metric).mean)} (sd {short(score(one, metric).sd)})" for one in order]
    return f"Test {METRICS[metric][0]}, mean over folds, best first: {', '.join(parts)}."


def sensitivity(view: View) -> Plot | None:
    """What becomes of the test score when the parameter of a loss is fixed."""
    tuned = view.having("sensitivity")
    if not tuned:
        return None
    judged = view.problem.judged_by
    metrics = [metric for metric in dict.fromkeys((judged, "pearson", "mae")) if metric in metrics_of(view.problem)][:2]
    champion = champion_of(view.problem)
    panels = [_champion_panel(view, champion, metric) for metric in metrics] if champion is not None and champion in tuned else []
    alt = f"Test {METRICS[judged][0]} with the parameter held at each of its values: {_ranges(tuned, judged)}."
    panels.append(Panel(lambda axes: _draw_ranges(axes, view, tuned, judged), alt))
    return Plot(
        name="sensitivity",
        title="Sensitivity to the parameter",
        caption="The parameter of a loss is held at one value, and only learning rate, decay and epoch are chosen. Lines across: "
        "the other methods, fully tuned.",
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


def _champion_panel(view: View, champion: Method, metric: str) -> Panel:
    parts = [f"{short(entry.value)}: {short(_mean(entry, metric))}" for entry in _by_value(champion)]
    alt = (
        f"{printable(champion.title)}'s mean test {METRICS[metric][0]} by {champion.parameter}: {', '.join(parts)}. Rivals, tuned: "
    )
    rivals = [method for method in view.methods if method is not champion]
    alt += ", ".join(f"{printable(one.title)} {short(score(one, metric).mean)}" for one in rivals) + "."
    return Panel(lambda axes: _draw_champion(axes, view, champion, metric), alt)


def _draw_champion(axes: Axes, view: View, champion: Method, metric: str) -> None:
    entries, look = _by_value(champion), view.look(champion)
    places = np.arange(len(entries))
    means = np.array([_mean(entry, metric) for entry in entries])
    sds = np.array([np.nanstd(entry.scores.get(metric, (np.nan,))) for entry in entries])
    for method in view.methods:
        if method is not champion:
            axes.axhline(score(method, metric).mean, color=view.look(method).light, linestyle=view.look(method).dash,
                         linewidth=1.1, gid=view.look(method).key)  # fmt: skip
    axes.fill_between(places, means - sds, means + sds, color=look.light, alpha=0.15, linewidth=0, gid=look.key)
    line(axes, places, means, look, marker=look.marker, markersize=6)
    axes.set_xticks(places, [short(entry.value) for entry in entries])
    tuned = {method.name: np.array([score(method, metric).mean]) for method in view.methods}
    axes.set_xlim(-0.35, len(entries) - 0.65)
    axes.set_ylim(*with_room(*common_range(tuned | {champion.name: np.concatenate([means - sds, means + sds])})))
    few_ticks(axes, x=None)
    label(axes, f"{printable(champion.title)}: test {METRICS[metric][0]} by {champion.parameter}", f"{champion.parameter} held at")


def _ranges(tuned: Sequence[Method], metric: str) -> str:
    described = []
    for method in tuned:
        means = [_mean(entry, metric) for entry in method.sensitivity]
        described.append(f"{printable(method.title)} {short(float(np.nanmin(means)))} to {short(float(np.nanmax(means)))}")
    return ", ".join(described)


def _draw_ranges(axes: Axes, view: View, tuned: Sequence[Method], metric: str) -> None:
    order = [method for method in ranking(view.methods, metric)[::-1] if method in tuned]
    frame = with_room(
        *common_range({method.name: np.array([_mean(entry, metric) for entry in method.sensitivity]) for method in order})
    )
    for place, method in enumerate(order):
        look, entries = view.look(method), _by_value(method)
        means = np.array([_mean(entry, metric) for entry in entries])
        if not frame[0] <= np.nanmedian(means) <= frame[1]:
            point_beyond(axes, place, float(np.nanmedian(means)), frame, look.light, look.key)
        axes.plot([min(means), max(means)], [place, place], color=look.light, linewidth=2.5, alpha=0.35, gid=look.key)
        axes.plot(means, [place] * len(means), "o", color=look.light, markersize=4, gid=look.key)
        values = ", ".join(short(entry.value) for entry in entries)
        name = f"{printable(method.title, 14)}: {printable(method.parameter or '', 14)} {values}"
        axes.text(0, place + 0.25, name, transform=axes.get_yaxis_transform(), fontsize=7, color=MUTED, gid=look.key)
    axes.set_yticks([])
    axes.set(xlim=frame, ylim=(-0.5, len(order) - 0.2))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    few_ticks(axes, x=4, y=None)
    label(axes, f"Range of test {METRICS[metric][0]}", "larger is better" if METRICS[metric][1] else "smaller is better")
