"""The tables of the page as rows of cells: what is shown, and the value by which it sorts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gar.app.report.results import Method, Problem, Results
from gar.app.report.style import BASELINE, CHAMPION, METRICS, NOTHING, number, percent, printable, probability, short
from gar.app.report.summary import (
    Duel,
    baseline_of,
    best_rival,
    champion_of,
    champions_of,
    duel,
    metrics_of,
    places_of,
    ranking,
    score,
)


@dataclass(frozen=True)
class Column:
    """A heading that sorts."""

    title: str
    first: str
    """The order that a first click gives: what a reader most likely wants on top."""
    order: str = "none"
    """The order of the table as it stands."""


@dataclass(frozen=True)
class Cell:
    """What is shown, what sorts it, what stands small beside it, and how it is marked."""

    text: str
    value: str = ""
    detail: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Row:
    """One method."""

    method: Method
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """Headings, of which the first belongs to the methods, and rows."""

    columns: Sequence[Column]
    rows: Sequence[Row]


def _sortable(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def score_table(problem: Problem) -> Table:
    """Mean and deviation of every method by every metric, the best first by the metric that judges."""
    metrics = metrics_of(problem)
    order = ranking(problem.methods, problem.judged_by)
    order += [method for method in problem.methods if method not in order]
    first = {name: "descending" if METRICS[name][1] else "ascending" for name in metrics}
    columns = [Column(METRICS[name][0], first[name], first[name] if name == problem.judged_by else "none") for name in metrics]
    rows = [Row(method, [*_scores(problem, method, metrics), *_effort(method)]) for method in order]
    return Table([Column("Method", "ascending"), *columns, Column("Models", "ascending"), Column("Seconds", "ascending")], rows)


def _scores(problem: Problem, method: Method, metrics: Sequence[str]) -> list[Cell]:
    cells = []
    for metric in metrics:
        one, places = score(method, metric), places_of(problem, metric)
        best = method in ranking(problem.methods, metric)[:1]
        cells.append(Cell(number(one.mean, places), _sortable(one.mean), f"({number(one.sd, places)})", "best" if best else ""))
    return cells


def _effort(method: Method) -> list[Cell]:
    failed = f"{method.failed} failed" if method.failed else ""
    seconds = Cell(number(method.seconds, 1), _sortable(method.seconds))
    return [Cell(f"{method.models:,}", str(method.models), failed), seconds]


def duel_table(problem: Problem) -> Table | None:
    """GAR of every family against its rivals: gain in percent, and both p-values."""
    metrics, champions = metrics_of(problem), champions_of(problem)
    best = {metric: best_rival(problem, metric) for metric in metrics}
    columns = [Column("GAR against", "ascending"), *(Column(METRICS[name][0], "descending") for name in metrics)]
    rows = []
    for champion in champions:
        for rival in _rivals(problem, champion, [one for one in best.values() if one is not None]):
            cells = [_duel_cell(duel(problem, metric, rival, champion), rival is best[metric]) for metric in metrics]
            name = [Cell(printable(champion.title), printable(champion.title).lower())] if len(champions) > 1 else []
            rows.append(Row(rival, [*name, *cells]))
    if len(champions) > 1:
        columns.insert(1, Column("GAR by", "ascending"))
    return Table(columns, rows) if rows else None


def _rivals(problem: Problem, champion: Method, best: Sequence[Method]) -> list[Method]:
    """Those of the champion's own family, the baseline first, then the best of others."""
    order = [method for method in ranking(problem.methods, problem.judged_by) if method.loss != CHAMPION]
    own = [method for method in order if method.family == champion.family]
    return sorted(own, key=lambda method: method.loss != BASELINE) + [one for one in order if one in best and one not in own]


def _duel_cell(one: Duel, is_best: bool) -> Cell:
    mark = ("gain" if one.gain > 0 else "loss") if one.is_clear else "unclear"
    return Cell(
        percent(one.gain),
        _sortable(one.gain),
        f"p {probability(one.p)} / {probability(one.p_corrected)}",
        f"{mark} rival" if is_best else mark,
    )


def overview(results: Results) -> list[dict[str, Any]]:
    """One line for every problem: who wins, and what GAR gains over the baseline and over the best rival."""
    return [_line(problem) for problem in results.problems]


def _line(problem: Problem) -> dict[str, Any]:
    metric = problem.judged_by
    order, champion = ranking(problem.methods, metric), champion_of(problem)
    winner = f"{printable(order[0].title)} {number(score(order[0], metric).mean, places_of(problem, metric))}" if order else NOTHING
    sides = (baseline_of(problem, champion), best_rival(problem, metric))
    cells = [
        Cell(NOTHING) if champion is None or rival is None else _duel_cell(duel(problem, metric, rival), False) for rival in sides
    ]
    rank = f"{order.index(champion) + 1} of {len(order)}" if champion in order else NOTHING
    return {"title": printable(problem.title), "metric": METRICS[metric][0], "winner": winner, "rank": rank, "cells": cells}


def settings_table(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(printable(str(name)), printable(_setting(value))) for name, value in settings.items()]


def _setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_setting(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_setting(item) for item in value) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def choice_table(problem: Problem) -> list[dict[str, str]]:
    """What won in every fold."""
    return [
        {
            "method": printable(method.title),
            "fold": str(choice.fold),
            "learning_rate": f"{choice.learning_rate:g}",
            "decay": f"depth {choice.depth}" if choice.weight_decay is None else f"{choice.weight_decay:g}",
            "parameter": NOTHING if choice.parameter is None else f"{printable(method.parameter or '')} {short(choice.parameter)}",
            "epoch": str(choice.epoch + 1),
        }
        for method in problem.methods
        for choice in method.chosen
    ]
