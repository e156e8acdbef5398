"""Tables of a report: scores, scores within groups and of each target, gains with p-values, and a line for each problem."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gar.app.report.formatting import NOTHING, decimals, number, percent, printable, probability
from gar.app.report.results import Method, Problem, Results
from gar.app.report.summary import (
    INTEREST,
    baseline_of,
    best_rival,
    compare_methods,
    ensemble_text,
    method_of_interest,
    methods_of_interest,
    metric_title,
    metrics_of,
    ranking,
    score,
    score_texts,
    unbeaten_reference,
)
from gar.registry import BASELINE, METHOD_OF_INTEREST, METRICS
from gar.statistics import Comparison

AGREEMENT = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "concordance": "Concordance",
    "nash_sutcliffe": "NSE",
    "kling_gupta": "KGE",
    "pearson_of_all_rows": "Pearson of all rows",
}
"""Metrics of agreement within groups, and one of all rows to compare with; larger is better."""


@dataclass(frozen=True)
class Heading:
    """The head of a column, with its order after a first click (the likely best on top), and its order as the table stands."""

    title: str
    first: str = "ascending"
    order: str = "none"


@dataclass(frozen=True)
class TableCell:
    """The text of a cell, the value that sorts it, small text beside it, and its CSS class."""

    text: str
    value: str = ""
    detail: str = ""
    mark: str = ""


@dataclass(frozen=True)
class SortableTable:
    """Headings, of which the first belongs to the methods, and a row of cells for every method."""

    headings: Sequence[Heading]
    rows: Sequence[tuple[Method, Sequence[TableCell]]]


def score_table(problem: Problem) -> SortableTable:
    """Return mean and standard deviation of every method by every metric, the best first by the selection metric."""
    metrics, order = metrics_of(problem), ranking(problem.methods, problem.selected_by)
    order += [method for method in problem.methods if method not in order]
    headings = [Heading("Method")]
    for metric in metrics:
        first = "descending" if METRICS[metric].larger_is_better else "ascending"
        headings.append(Heading(metric_title(problem, metric), first, first if metric == problem.selected_by else "none"))
    if has_ensembles := any(method.ensemble for method in order):
        first = "descending" if METRICS[problem.selected_by].larger_is_better else "ascending"
        headings.append(Heading(f"{METRICS[problem.selected_by].title} of the mean", first))
    order += problem.references
    rows = []
    for method in order:
        cells = [_score_cell(problem, method, metric) for metric in metrics]
        cells += [_ensemble_cell(problem, method)] if has_ensembles else []
        rows.append((method, [*cells, *_effort(method)]))
    return SortableTable([*headings, Heading("Models"), Heading("Seconds")], rows)


def _ensemble_cell(problem: Problem, method: Method) -> TableCell:
    if problem.selected_by not in method.ensemble:
        return TableCell(NOTHING)
    value = method.ensemble[problem.selected_by]
    mark = "saved" if method.name == problem.saved else ""
    return TableCell(ensemble_text(problem, method, problem.selected_by), _sortable(value), mark=mark)


def _score_cell(problem: Problem, method: Method, metric: str) -> TableCell:
    mean, sd = score_texts(problem, method, metric)
    mark = "best" if method in ranking(problem.methods, metric)[:1] else ""
    return TableCell(mean, _sortable(score(method, metric).mean), sd, mark)


def _sortable(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def _effort(method: Method) -> list[TableCell]:
    failed = f"{method.failed} failed" if method.failed else ""
    seconds = TableCell(number(method.seconds, 1), _sortable(method.seconds))
    return [TableCell(f"{method.models:,}", str(method.models), failed), seconds]


def within_table(problem: Problem) -> SortableTable | None:
    """Return metrics of agreement within groups of every method's mean prediction; None if rows are compared with all others."""
    if problem.pairs_within is None:
        return None
    order = ranking(problem.methods, problem.selected_by)
    order += [method for method in problem.methods if method not in order]
    best = {name: max((method.within.get(name, math.nan) for method in problem.methods), default=math.nan) for name in AGREEMENT}
    rows = []
    for method in [*order, *problem.references]:
        values = {name: method.within.get(name, math.nan) for name in AGREEMENT}
        marks = {name: "best" if method in order and value == best[name] else "" for name, value in values.items()}
        texts = {name: number(value, 3 if abs(value) < 100 else 0) for name, value in values.items()}
        rows.append((method, [TableCell(texts[name], _sortable(value), mark=marks[name]) for name, value in values.items()]))
    return SortableTable([Heading("Method"), *(Heading(title, "descending") for title in AGREEMENT.values())], rows)


_MOST_TARGETS = 12
"""Targets with scores of their own in a report."""


def target_table(problem: Problem) -> SortableTable | None:
    """Return the score of every method's mean prediction for each target, in its own unit; None for a single target."""
    targets, metric = list(problem.targets)[:_MOST_TARGETS], problem.selected_by
    order = [method for method in ranking(problem.methods, metric) if method.by_target]
    if not order:
        return None
    sign, larger = METRICS[metric].sign, METRICS[metric].larger_is_better
    columns = [[one.by_target[index][metric] for one in order] for index in range(len(targets))]
    best = [max((sign * value for value in column if math.isfinite(value)), default=math.nan) for column in columns]
    digits = [3 if larger else decimals(column) for column in columns]

    def cells(method: Method) -> list[TableCell]:
        values = [one[metric] for one in method.by_target[: len(targets)]]
        marks = ["best" if method in order and sign * value == most else "" for value, most in zip(values, best, strict=True)]
        return [TableCell(number(v, d), _sortable(v), mark=mark) for v, d, mark in zip(values, digits, marks, strict=True)]

    rows = [(method, cells(method)) for method in (*order, *problem.references) if method.by_target]
    first = "descending" if larger else "ascending"
    headings = [Heading(f"{metric_title(problem, metric)} of {printable(name, 24)}", first) for name in targets]
    return SortableTable([Heading("Method"), *headings], rows)


def gain_table(problem: Problem) -> SortableTable | None:
    """Return the gain of the method of interest of every family over its rivals, with p-values; None if nothing was learned."""
    metrics, methods = metrics_of(problem), methods_of_interest(problem)
    if unbeaten_reference(problem) is not None:
        return None
    best = {metric: best_rival(problem, metric) for metric in metrics}
    several = len(methods) > 1
    rows = []
    for method in methods:
        for rival in _rivals(problem, method, [one for one in best.values() if one is not None]):
            cells = [gain_cell(problem, name, rival, method, is_best=rival is best[name]) for name in metrics]
            name = [TableCell(printable(method.title), printable(method.title).lower())] if several else []
            rows.append((rival, [*name, *cells]))
    headings = [Heading(f"{INTEREST} against"), *([Heading(f"{INTEREST} by")] if several else [])]
    return (
        SortableTable([*headings, *(Heading(metric_title(problem, name), "descending") for name in metrics)], rows)
        if rows
        else None
    )


def _rivals(problem: Problem, method: Method, best: Sequence[Method]) -> list[Method]:
    """Return the rivals of the method's own family, the baseline first, then the best of other families."""
    order = [one for one in ranking(problem.methods, problem.selected_by) if one.loss != METHOD_OF_INTEREST]
    own = [one for one in order if one.family == method.family]
    return sorted(own, key=lambda one: one.loss != BASELINE) + [one for one in order if one in best and one not in own]


_NEAR_ZERO = 0.2
"""A correlation or R2 below this has no percentages: a small difference would be a large share of it."""


def gain_text(problem: Problem, metric: str, rival: Method, one: Comparison, method: Method | None = None) -> str:
    """Return a gain in percent, or for correlations near zero the difference itself."""
    theirs, mine = score(rival, metric).mean, score(method or method_of_interest(problem) or rival, metric).mean
    if METRICS[metric].larger_is_better and min(theirs, mine) < _NEAR_ZERO:
        return f"{mine - theirs:+.3f}" if math.isfinite(mine - theirs) else NOTHING
    return percent(one.gain)


def gain_cell(problem: Problem, metric: str, rival: Method, method: Method | None = None, *, is_best: bool = False) -> TableCell:
    """Return the gain over a rival with both p-values."""
    one = compare_methods(problem, metric, rival, method)
    mark = ("gain" if one.gain > 0 else "loss") if one.is_clear else "unclear"
    tests = f"p {probability(one.p)} / {probability(one.p_corrected)}"
    text = gain_text(problem, metric, rival, one, method)
    return TableCell(text, _sortable(one.gain), tests, f"{mark} rival" if is_best else mark)


def overview(results: Results) -> Iterator[dict[str, Any]]:
    """Yield one line for every problem: the best method, and the gains over the baseline and over the best rival."""
    for problem in results.problems:
        metric, order = problem.selected_by, ranking(problem.methods, problem.selected_by)
        method = method_of_interest(problem)
        winner = f"{printable(order[0].title)} {score_texts(problem, order[0], metric)[0]}" if order else NOTHING
        rank = f"{order.index(method) + 1} of {len(order)}" if method in order else NOTHING
        rivals = (
            (baseline_of(problem, method), best_rival(problem, metric)) if unbeaten_reference(problem) is None else (None, None)
        )
        cells = [gain_cell(problem, metric, rival) if method and rival else TableCell(NOTHING) for rival in rivals]
        yield {
            "title": printable(problem.title),
            "metric": metric_title(problem, metric),
            "winner": winner,
            "rank": rank,
            "cells": cells,
        }
