"""Findings of a comparison: means, rankings, gains with p-values, and one honest sentence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gar.app.report.formatting import NO_BREAK, decimals, number, printable, probability
from gar.app.report.results import Method, ParameterScore, Problem, Results
from gar.registry import BASELINE, LOSSES, METHOD_OF_INTEREST, METRICS
from gar.statistics import Comparison, compare_scores

INTEREST = LOSSES[METHOD_OF_INTEREST].title

WITHIN = ("pearson", "spearman")
"""Metrics that are means over groups, if rows are compared within these."""


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


def metric_title(problem: Problem, metric: str) -> str:
    """Return the title of a metric, which says within which groups it is taken, if it is."""
    is_within = problem.pairs_within is not None and metric in WITHIN
    return f"{METRICS[metric].title} within {printable(problem.pairs_within or '', 24)}" if is_within else METRICS[metric].title


def score_texts(problem: Problem, method: Method, metric: str) -> tuple[str, str]:
    """Return mean and standard deviation with as many decimals as the whole column; three for metrics of at most one."""
    larger, one = METRICS[metric].larger_is_better, score(method, metric)
    digits = 3 if larger else decimals(score(other, metric).mean for other in problem.methods)
    sd = 0.0 if one.sd < 1e-9 * abs(one.mean) else one.sd  # rounding of equal scores
    return number(one.mean, digits), "" if math.isnan(one.mean) else f"({number(sd, digits)})"


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
    # Seeds of a curve do not share training rows as folds do: they are repetitions, and the test is the paired one.
    rows = {"train_rows": math.inf if problem.truth is not None else problem.train_rows, "test_rows": problem.test_rows}
    return compare_scores(mine[:folds], theirs[:folds], larger_is_better=METRICS[metric].larger_is_better, **rows)


def headline(results: Results) -> str:
    """Return the finding in one or two sentences, whichever method is best."""
    if len(results.problems) == 1:
        return verdict(results.problems[0])
    found: dict[str, list[str]] = {}
    for problem in results.problems:
        found.setdefault(_outcome(problem), []).append(_in_short(problem))
    parts = [f"{_OUTCOMES[outcome]} {', '.join(found[outcome])}" for outcome in _OUTCOMES if outcome in found]
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


_OUTCOMES = {
    "clear": f"{INTEREST} is clearly best on",
    "ahead": f"{INTEREST} is ahead, but chance may explain it, on",
    "near": "no clear winner on",
    "lost": f"{INTEREST} is not best on",
    "linear": "no loss beats a linear model on",
    "nothing": "nothing was learned on",
    "open": f"{INTEREST} has no rival on",
}
"""Beginnings of a sentence on several problems, by what was found on each."""


def _outcome(problem: Problem) -> str:
    """Return which of the outcomes was found."""
    order, method = ranking(problem.methods, problem.selected_by), method_of_interest(problem)
    rival = best_rival(problem, problem.selected_by)
    if (unbeaten := unbeaten_reference(problem)) is not None:
        return "linear" if unbeaten.loss == RIDGE else "nothing"
    if method not in order or rival is None:
        return "open"
    if not compare_methods(problem, problem.selected_by, rival).is_clear:
        return "ahead" if order[0].loss == METHOD_OF_INTEREST else "near"
    return "clear" if order[0].loss == METHOD_OF_INTEREST else "lost"


def _in_short(problem: Problem) -> str:
    """Return the problem with the scores of the two methods that matter, such as 'Sine (GAR 0.04, MAE 0.35)'."""
    order, unbeaten = ranking(problem.methods, problem.selected_by), unbeaten_reference(problem)
    if unbeaten is not None:
        shown = [unbeaten, order[0]]
    else:
        shown = [one for one in order if one in (method_of_interest(problem), best_rival(problem, problem.selected_by))]
    scores = ", ".join(f"{printable(one.title)} {_mean_text(problem, one)}" for one in shown)
    return f"{printable(problem.title)} ({scores})" if scores else printable(problem.title)


def verdict(problem: Problem) -> str:
    """Return the finding on one problem in one or two short sentences, by its selection metric."""
    order, method = ranking(problem.methods, problem.selected_by), method_of_interest(problem)
    rival, table = best_rival(problem, problem.selected_by), printable(problem.title)
    of = f"test {metric_title(problem, problem.selected_by)}"
    if not order:
        return f"No method has a {of} on {table}."
    best = f"{printable(order[0].title)} has the {_extreme(problem)} {of}, {_mean_text(problem, order[0])}"
    if (unbeaten := unbeaten_reference(problem)) is not None:
        return _nothing_learned(problem, unbeaten, best)
    if method is None or method not in order:
        return f"{best}, on {table}; {INTEREST} was not compared."
    if rival is None:
        return (
            f"{printable(method.title)} reaches a {of} of {_mean_text(problem, method)} on {table}; nothing was compared with it."
        )
    one = compare_methods(problem, problem.selected_by, rival)
    if one.is_clear and order[0] is method:
        return f"{INTEREST} wins on {table}: {best}, {_gain(problem, one.gain, rival)} ({_p_text(one)})."
    if one.is_clear:
        return f"{INTEREST} does not win on {table}: {best}; {_rank(problem, order, method)} ({_p_text(one)})."
    other = _rank(problem, order, method) if order[0] is not method else f"then {_named(problem, rival)}"
    chance = (
        f"the difference may be chance ({_p_text(one)})" if not math.isnan(one.p_corrected) else "there are too few folds to tell"
    )
    return f"No clear winner on {table}: {best}; {other}; {chance}."


def _extreme(problem: Problem) -> str:
    return "highest" if METRICS[problem.selected_by].larger_is_better else "lowest"


def _named(problem: Problem, method: Method) -> str:
    return f"{printable(method.title)} with {_mean_text(problem, method)}"


def _rank(problem: Problem, order: Sequence[Method], method: Method) -> str:
    return f"{printable(method.title)} is number {order.index(method) + 1} of {len(order)} with {_mean_text(problem, method)}"


def _mean_text(problem: Problem, method: Method) -> str:
    return score_texts(problem, method, problem.selected_by)[0]


def _gain(problem: Problem, gain: float, rival: Method) -> str:
    """Return the difference to a rival in words; correlations have no percentages."""
    if METRICS[problem.selected_by].larger_is_better:
        return f"then {_named(problem, rival)}"
    return f"{abs(gain):.1f} % less than {printable(rival.title)} with {_mean_text(problem, rival)}"


def _p_text(one: Comparison) -> str:
    return f"p = {probability(one.p_corrected)}".replace("= <", "< ")


RIDGE = "ridge"
_LEARNED = 0.01
"""By how much the best method must be better than a constant, so that anything was learned: a correlation or R2 by this much,
an error by this share."""


def unbeaten_reference(problem: Problem) -> Method | None:
    """Return the constant or the linear model that no method beats, the constant first; None if all are beaten."""
    order = ranking(problem.methods, problem.selected_by)
    for reference in problem.references if order else ():
        metric = problem.selected_by if math.isfinite(score(reference, problem.selected_by).mean) else "mae"
        mine, theirs = score(order[0], metric).mean, score(reference, metric).mean
        least = 0.0 if reference.loss == RIDGE else _LEARNED * (1.0 if METRICS[metric].larger_is_better else theirs)
        if not METRICS[metric].sign * (mine - theirs) > least:
            return reference
    return None


def _nothing_learned(problem: Problem, unbeaten: Method, best: str) -> str:
    name, table = printable(unbeaten.title), printable(problem.title)
    if unbeaten.loss == RIDGE:
        return f"No loss beats a linear model on {table}: {name} has {_mean_text(problem, unbeaten)}; {best}."
    targets = " and ".join(printable(target, 24) for target in problem.targets[:3])
    return f"Nothing was learned on {table}: no loss beats a constant. {best}; the columns say little about {targets}."


def saved_text(problem: Problem) -> str:
    """Return what is saved, why, and how good it is on the test rows; empty if nothing is saved."""
    method = next((one for one in problem.methods if one.name == problem.saved), None)
    if method is None:
        return ""
    scores = [
        f"{metric_title(problem, name)}{NO_BREAK}{ensemble_text(problem, method, name)}"
        for name in METRICS
        if name in method.ensemble
    ]
    reached = f" On the test rows it has {', '.join(scores)}." if scores else ""
    folds = len(method.scores.get(problem.selected_by, ()))
    mean = f", the mean of the models of {folds} folds" if folds > 1 else ""
    return f"Saved is {printable(method.title)}{mean}: it was best on validation rows, and test rows play no part in that.{reached}"


def ensemble_text(problem: Problem, method: Method, metric: str) -> str:
    digits = 3 if METRICS[metric].larger_is_better else decimals(score(one, metric).mean for one in problem.methods)
    return number(method.ensemble[metric], digits)


def next_step(problem: Problem) -> str:
    """Return what may bring a clearer or better result; empty where nothing comes to mind."""
    outcome = _outcome(problem)
    if problem.warnings:
        return "First look at the warnings."
    if outcome in ("ahead", "near") and problem.truth is None:
        return "More rows decide it better; a longer run (--full) or other losses may help, too."
    if outcome in ("nothing", "linear"):
        return "Look for columns that say more about the target, or use the simpler model."
    return ""


def setting_text(value: Any) -> str:
    """Return the value of a setting in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {setting_text(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(setting_text(item) for item in value) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
