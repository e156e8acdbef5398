"""What the numbers of a comparison say: means, who is best, gains, p-values, and one honest sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gar.app.report.results import Method, Problem, Results
from gar.app.report.style import BASELINE, CHAMPION, METRICS, decimals, number, printable, probability
from gar.statistics import corrected_resampled_t, percent_gain, two_sample_t

CHANCE = 0.05
"""A p-value below this is called a difference."""


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation (divided by their number, as in the paper) over folds; NaN where nothing was measured."""

    mean: float
    sd: float


def score(method: Method, metric: str) -> Score:
    values = np.asarray(method.scores.get(metric, ()), dtype=np.float64)
    values = values[np.isfinite(values)]
    return Score(float(values.mean()), float(values.std())) if len(values) else Score(math.nan, math.nan)


def metrics_of(problem: Problem) -> list[str]:
    """Metrics that any method has, in the usual order."""
    return [name for name in METRICS if any(method.scores.get(name) for method in problem.methods)]


def ranking(methods: Sequence[Method], metric: str) -> list[Method]:
    """The best mean first; methods without one are left out."""
    scored = [method for method in methods if math.isfinite(score(method, metric).mean)]
    return sorted(scored, key=lambda method: score(method, metric).mean, reverse=METRICS[metric][1])


def in_order(problem: Problem) -> list[Method]:
    """The champion, the baseline, then the others as they come."""
    first = {CHAMPION: 0, BASELINE: 1}
    return sorted(problem.methods, key=lambda method: first.get(method.loss, 2))


def champions_of(problem: Problem) -> list[Method]:
    """GAR of every kind of model, the best first by the metric that judges."""
    champions = [method for method in problem.methods if method.loss == CHAMPION]
    order = ranking(champions, problem.judged_by)
    return order + [method for method in champions if method not in order]


def champion_of(problem: Problem) -> Method | None:
    """The best of them; None if there is none."""
    return next(iter(champions_of(problem)), None)


def baseline_of(problem: Problem, champion: Method | None) -> Method | None:
    """The baseline of the champion's own family: what it gains shall be due to the loss."""
    own = [method for method in problem.methods if champion is not None and method.family == champion.family]
    return next((method for method in own if method.loss == BASELINE), None)


def places_of(problem: Problem, metric: str) -> int:
    """Decimals for a column of means; three for what is at most one."""
    return 3 if METRICS[metric][1] else decimals(score(method, metric).mean for method in problem.methods)


@dataclass(frozen=True)
class Duel:
    """A champion against one rival by one metric."""

    rival: Method
    gain: float
    """Percent by which the champion's mean is better."""
    p: float
    """Of Student's t-test of two samples, as in the paper, which takes folds for independent."""
    p_corrected: float
    """Of the corrected resampled t-test, which knows that folds share training rows."""

    @property
    def is_clear(self) -> bool:
        """Whether the corrected test finds a difference."""
        return self.p_corrected < CHANCE


def duel(problem: Problem, metric: str, rival: Method, champion: Method | None = None) -> Duel:
    """Of folds in which both have a value; NaN where the champion (None is the best) or values are missing."""
    champion = champion or champion_of(problem)
    pairs = [] if champion is None else list(zip(champion.scores.get(metric, ()), rival.scores.get(metric, ()), strict=False))
    pairs = [(mine, theirs) for mine, theirs in pairs if math.isfinite(mine) and math.isfinite(theirs)]
    if not pairs:
        return Duel(rival, math.nan, math.nan, math.nan)
    mine, theirs = ([float(pair[place]) for pair in pairs] for place in (0, 1))
    rows = {"train_rows": problem.train_rows, "test_rows": problem.test_rows}
    return Duel(
        rival=rival,
        gain=percent_gain(mine, theirs, larger_is_better=METRICS[metric][1]),
        p=two_sample_t(mine, theirs),
        p_corrected=corrected_resampled_t(mine, theirs, **rows) if min(rows.values()) > 0 else math.nan,
    )


def best_rival(problem: Problem, metric: str) -> Method | None:
    """The best method of any family that is not GAR."""
    order = ranking([method for method in problem.methods if method.loss != CHAMPION], metric)
    return order[0] if order else None


def headline(results: Results) -> str:
    """The finding in one sentence, whoever wins."""
    if len(results.problems) == 1:
        return verdict(results.problems[0])
    decided = [problem for problem in results.problems if champion_of(problem) and best_rival(problem, problem.judged_by)]
    won = [problem for problem in decided if _winner(problem).loss == CHAMPION]
    lost = [problem for problem in decided if problem not in won]
    if not decided:
        return f"{len(results.problems)} problems were compared; GAR met no rival on any of them."
    clear = sum(_against_best(problem).is_clear for problem in won)
    text = f"GAR has the best mean test score on {len(won)} of {len(decided)} problems"
    if won:
        some = {0: "none", len(won): "all" if len(won) > 1 else "it"}.get(clear, str(clear))
        text += f", on {some}{' of these' if len(won) > 1 or not clear else ''} by more than chance explains"
    if lost:
        named = ", ".join(f"{printable(problem.title)} (to {printable(_winner(problem).title)})" for problem in lost)
        text += f"; it does not win on {named}"
    return f"{text}."


def verdict(problem: Problem) -> str:
    """What was found on one problem, by the metric it is judged by."""
    metric = problem.judged_by
    order, champion = ranking(problem.methods, metric), champion_of(problem)
    if not order:
        return f"No method has a test {METRICS[metric][0]} on {printable(problem.title)}."
    best = f"{_superlative(metric)} test {METRICS[metric][0]} on {printable(problem.title)}"
    if champion is None or champion not in order:
        return f"{printable(order[0].title)} has the {best}, {_value(problem, order[0])}; there is no result of GAR."
    if best_rival(problem, metric) is None:
        reached = f"{METRICS[metric][0]} of {_value(problem, champion)} on {printable(problem.title)}"
        return f"{printable(champion.title)} reaches a test {reached}; it met no rival."
    return _won(problem, champion, best) if order[0] is champion else _lost(problem, champion, order, best)


def _won(problem: Problem, champion: Method, best: str) -> str:
    text = f"{printable(champion.title)} has the {best}: {_value(problem, champion)}"
    rival, baseline = _against_best(problem), baseline_of(problem, champion)
    if baseline is not None and baseline is not rival.rival:
        text += f", {_gain(duel(problem, problem.judged_by, baseline))}"
        return f"{text}, and {_gain(rival, 'the best rival, ')}."
    return f"{text}, {_gain(rival, 'the best rival, ')}."


def _lost(problem: Problem, champion: Method, order: list[Method], best: str) -> str:
    fight = _against_best(problem)
    text = f"GAR does not win: {printable(order[0].title)} has the {best}, {_value(problem, order[0])}; "
    text += f"{printable(champion.title)} is number {order.index(champion) + 1} of {len(order)} with {_value(problem, champion)}, "
    return f"{text}{_gain(fight)}."


def _gain(fight: Duel, prefix: str = "") -> str:
    """Such as '3.1 % better than MAE (p = 0.012)'."""
    name = f"{prefix}{printable(fight.rival.title)}"
    doubt = "" if fight.is_clear or math.isnan(fight.p_corrected) else ", chance may explain it"
    tested = "" if math.isnan(fight.p_corrected) else f" (corrected p {_equals(fight.p_corrected)}{doubt})"
    if math.isnan(fight.gain):
        return f"compared with {name}{tested}"
    return f"{abs(fight.gain):.1f} % {'better' if fight.gain >= 0 else 'worse'} than {name}{tested}"


def _equals(p: float) -> str:
    text = probability(p)
    return text.replace("<", "< ") if text.startswith("<") else f"= {text}"


def _against_best(problem: Problem) -> Duel:
    rival = best_rival(problem, problem.judged_by)
    assert rival is not None, "asked only where there is a rival"
    return duel(problem, problem.judged_by, rival)


def _winner(problem: Problem) -> Method:
    return ranking(problem.methods, problem.judged_by)[0]


def _superlative(metric: str) -> str:
    return "highest" if METRICS[metric][1] else "lowest"


def _value(problem: Problem, method: Method) -> str:
    places, one = places_of(problem, problem.judged_by), score(method, problem.judged_by)
    return f"{number(one.mean, places)} ({number(one.sd, places)})"
