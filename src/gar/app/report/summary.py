"""Findings of a comparison: means, rankings, gains with p-values, one honest sentence, and the tables of the page."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gar.app.report.formatting import NOTHING, decimals, number, percent, printable, probability
from gar.app.report.results import Method, ParameterScore, Problem, Results
from gar.registry import BASELINE, LOSSES, METHOD_OF_INTEREST, METRICS
from gar.statistics import Comparison, compare_scores

INTEREST = LOSSES[METHOD_OF_INTEREST].title


@dataclass(frozen=True)
class MeanScore:
    """Mean and standard deviation (divided by the number of folds, as in the paper); NaN where nothing was measured."""

    mean: float
    sd: float


def score(method: Method | ParameterScore, metric: str) -> MeanScore:
    """Return mean and standard deviation over the folds with a finite test score."""
    values = np.asarray(method.scores.get(metric, ()), dtype=np.float64)
    values = values[np.isfinite(values)]
    return MeanScore(float(values.mean()), float(values.std())) if len(values) else MeanScore(math.nan, math.nan)


def score_texts(problem: Problem, method: Method, metric: str) -> tuple[str, str]:
    """Return mean and standard deviation with as many decimals as the whole column; three for metrics of at most one."""
    larger, one = METRICS[metric].larger_is_better, score(method, metric)
    digits = 3 if larger else decimals(score(other, metric).mean for other in problem.methods)
    return number(one.mean, digits), f"({number(one.sd, digits)})"


def metrics_of(problem: Problem) -> list[str]:
    """Return the metrics that any method has, in the usual order."""
    return [name for name in METRICS if any(method.scores.get(name) for method in problem.methods)]


def ranking(methods: Sequence[Method], metric: str) -> list[Method]:
    """Return the methods with a mean test score, the best first."""
    scored = [method for method in methods if math.isfinite(score(method, metric).mean)]
    return sorted(scored, key=lambda method: score(method, metric).mean, reverse=METRICS[metric].larger_is_better)


def methods_of_interest(problem: Problem) -> list[Method]:
    """Return the method of interest of every family, the best first by the selection metric."""
    found = [method for method in problem.methods if method.loss == METHOD_OF_INTEREST]
    order = ranking(found, problem.selected_by)
    return order + [method for method in found if method not in order]


def method_of_interest(problem: Problem) -> Method | None:
    """Return the best method of interest; None if there is none."""
    return next(iter(methods_of_interest(problem)), None)


def baseline_of(problem: Problem, method: Method | None) -> Method | None:
    """Return the baseline of the method's own family, so that a gain is due to the loss."""
    own = [other for other in problem.methods if method is not None and other.family == method.family]
    return next((other for other in own if other.loss == BASELINE), None)


def best_rival(problem: Problem, metric: str) -> Method | None:
    """Return the best method of any family with another loss than the method of interest."""
    order = ranking([method for method in problem.methods if method.loss != METHOD_OF_INTEREST], metric)
    return order[0] if order else None


def compare_methods(problem: Problem, metric: str, rival: Method, method: Method | None = None) -> Comparison:
    """Compare a method (None is the best method of interest) with a rival; all values are NaN if either has no scores."""
    method = method or method_of_interest(problem)
    mine, theirs = (one.scores.get(metric, ()) if one else () for one in (method, rival))
    folds = min(len(mine), len(theirs))
    rows = {"train_rows": problem.train_rows, "test_rows": problem.test_rows}
    return compare_scores(mine[:folds], theirs[:folds], larger_is_better=METRICS[metric].larger_is_better, **rows)


def headline(results: Results) -> str:
    """Return the finding in one sentence, whichever method is best."""
    if len(results.problems) == 1:
        return verdict(results.problems[0])
    known = [problem for problem in results.problems if method_of_interest(problem)]
    decided = [(problem, rival) for problem in known if (rival := best_rival(problem, problem.selected_by))]
    winners = [ranking(problem.methods, problem.selected_by)[0] for problem, _ in decided]
    won = [pair for pair, winner in zip(decided, winners, strict=True) if winner.loss == METHOD_OF_INTEREST]
    lost = [(problem, winner) for (problem, _), winner in zip(decided, winners, strict=True) if winner.loss != METHOD_OF_INTEREST]
    if not decided:
        return f"{len(results.problems)} problems were compared; {INTEREST} has no rival on any of them."
    clear = sum(compare_methods(problem, problem.selected_by, rival).is_clear for problem, rival in won)
    text = f"{INTEREST} has the best mean test score on {len(won)} of {len(decided)} problems"
    if won:
        some = {0: "none", len(won): "all" if len(won) > 1 else "it"}.get(clear, str(clear))
        text += f", on {some}{' of these' if len(won) > 1 or not clear else ''} by more than chance explains"
    if lost:
        named = ", ".join(f"{printable(problem.title)} (to {printable(winner.title)})" for problem, winner in lost)
        text += f"; it does not win on {named}"
    return f"{text}."


def verdict(problem: Problem) -> str:
    """Return the finding on one problem in a sentence, by its selection metric."""
    metric, order, method = problem.selected_by, ranking(problem.methods, problem.selected_by), method_of_interest(problem)
    rival, title, table = best_rival(problem, metric), f"test {METRICS[metric].title}", printable(problem.title)
    if not order:
        return f"No method has a {title} on {table}."
    extreme = "highest" if METRICS[metric].larger_is_better else "lowest"
    best = f"{printable(order[0].title)} has the {extreme} {title} on {table}"
    value = " ".join(score_texts(problem, order[0], metric))
    if method is None or method not in order:
        return f"{best}, {value}; there is no result of {INTEREST}."
    if rival is None:
        return f"{printable(method.title)} reaches a {title} of {value} on {table}; it has no rival."
    if order[0] is method:
        baseline = baseline_of(problem, method)
        gain = "" if baseline is None or baseline is rival else f"{_gain(problem, baseline)}, and "
        return f"{best}: {value}, {gain}{_gain(problem, rival, 'the best rival, ')}."
    rank = f"number {order.index(method) + 1} of {len(order)} with {' '.join(score_texts(problem, method, metric))}"
    return f"{INTEREST} does not win: {best}, {value}; {printable(method.title)} is {rank}, {_gain(problem, rival)}."


def _gain(problem: Problem, rival: Method, prefix: str = "") -> str:
    """Return a text such as '3.1 % better than MAE (corrected p = 0.012)'."""
    one, name = compare_methods(problem, problem.selected_by, rival), f"{prefix}{printable(rival.title)}"
    doubt = "" if one.is_clear else ", chance may explain it"
    equals = f"= {probability(one.p_corrected)}".replace("= <", "< ")
    tested = "" if math.isnan(one.p_corrected) else f" (corrected p {equals}{doubt})"
    if math.isnan(one.gain):
        return f"compared with {name}{tested}"
    return f"{abs(one.gain):.1f} % {'better' if one.gain >= 0 else 'worse'} than {name}{tested}"


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
        headings.append(Heading(METRICS[metric].title, first, first if metric == problem.selected_by else "none"))
    rows = [(method, [*(_score_cell(problem, method, metric) for metric in metrics), *_effort(method)]) for method in order]
    return SortableTable([*headings, Heading("Models"), Heading("Seconds")], rows)


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


def gain_table(problem: Problem) -> SortableTable | None:
    """Return the gain of the method of interest of every family over its rivals in percent, with both p-values."""
    metrics, methods = metrics_of(problem), methods_of_interest(problem)
    best = {metric: best_rival(problem, metric) for metric in metrics}
    several = len(methods) > 1
    rows = []
    for method in methods:
        for rival in _rivals(problem, method, [one for one in best.values() if one is not None]):
            cells = [_gain_cell(compare_methods(problem, name, rival, method), is_best=rival is best[name]) for name in metrics]
            name = [TableCell(printable(method.title), printable(method.title).lower())] if several else []
            rows.append((rival, [*name, *cells]))
    headings = [Heading(f"{INTEREST} against"), *([Heading(f"{INTEREST} by")] if several else [])]
    return SortableTable([*headings, *(Heading(METRICS[name].title, "descending") for name in metrics)], rows) if rows else None


def _rivals(problem: Problem, method: Method, best: Sequence[Method]) -> list[Method]:
    """Return the rivals of the method's own family, the baseline first, then the best of other families."""
    order = [one for one in ranking(problem.methods, problem.selected_by) if one.loss != METHOD_OF_INTEREST]
    own = [one for one in order if one.family == method.family]
    return sorted(own, key=lambda one: one.loss != BASELINE) + [one for one in order if one in best and one not in own]


def _gain_cell(one: Comparison, *, is_best: bool = False) -> TableCell:
    mark = ("gain" if one.gain > 0 else "loss") if one.is_clear else "unclear"
    tests = f"p {probability(one.p)} / {probability(one.p_corrected)}"
    return TableCell(percent(one.gain), _sortable(one.gain), tests, f"{mark} rival" if is_best else mark)


def overview(results: Results) -> Iterator[dict[str, Any]]:
    """Yield one line for every problem: the best method, and the gains over the baseline and over the best rival."""
    for problem in results.problems:
        metric, order = problem.selected_by, ranking(problem.methods, problem.selected_by)
        method = method_of_interest(problem)
        winner = f"{printable(order[0].title)} {score_texts(problem, order[0], metric)[0]}" if order else NOTHING
        rank = f"{order.index(method) + 1} of {len(order)}" if method in order else NOTHING
        rivals = (baseline_of(problem, method), best_rival(problem, metric))
        cells = [
            _gain_cell(compare_methods(problem, metric, rival)) if method and rival else TableCell(NOTHING) for rival in rivals
        ]
        yield {"title": printable(problem.title), "metric": METRICS[metric].title, "winner": winner, "rank": rank, "cells": cells}


def setting_text(value: Any) -> str:
    """Return the value of a setting in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {setting_text(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(setting_text(item) for item in value) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
