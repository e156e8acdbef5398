"""Tables of scores: ours with the paper's beside them."""

from collections.abc import Mapping

from gar.app.report.formatting import NOTHING, percent, probability, short
from gar.registry import BASELINE
from gar.registry import METHOD_OF_INTEREST as CHAMPION
from gar.registry import METRICS as TITLES
from gar_reproduction import published
from gar_reproduction.names import METRICS, PUBLISHED_TASK
from gar_reproduction.pages.blocks import HIT, MISS, NOT_RUN, Cell, Table, row
from gar_reproduction.pages.numbers import Scores
from gar_reproduction.published import with_sd
from gar_reproduction.scores import Duel, Result, best_of, duel

_CELLS = "Mean(standard deviation) over the five folds."
LEGEND = f"{_CELLS} {HIT}: within two (paper's sd + our sd) of the published mean; {MISS}: not."
BOLD = "Bold: the best mean of a column."


def legend(scores: Scores) -> str:
    """What stands in the cells of a table of scores: marks only where the paper has such a table."""
    return LEGEND if scores.paper else _CELLS


def score_table(scores: Scores, task: str) -> Table:
    """Methods of one task by metric, ours and the paper's in turns."""
    has_paper = any(scores.published(task, unit.variant, METRICS[0]) for unit in scores.units_of(task))
    columns = ["Method"]
    for metric in METRICS:
        columns += [TITLES[metric].title, *(["paper"] if has_paper else [])]
    rows = []
    for unit in scores.units_of(task):
        cells: list[Cell | str] = []
        for metric in METRICS:
            theirs = scores.published(task, unit.variant, metric)
            is_best = scores.best(task, metric) == unit.variant
            missing = "diverged" if (task, unit.variant) in scores.digests else NOT_RUN
            cells.append(_ours(scores.ours.get((task, unit.variant, metric)), theirs, missing, is_best=is_best))
            cells += [_paper(theirs)] if has_paper else []
        rows.append(row(unit.title, *cells))
    return Table(columns, rows)


def _ours(one: Result | None, theirs: published.Score | None, missing: str, *, is_best: bool) -> Cell:
    if one is None:
        return Cell(missing)
    flag = "" if theirs is None else f" {HIT}" if one.is_near(theirs) else f" {MISS}"
    return Cell(with_sd(one.mean, one.sd) + flag, is_best)


def alpha_table(results: Mapping[str, Mapping[float, Result]]) -> Table:
    """GAR with alpha held at each value; ``results`` are those of every metric by alpha."""
    best = {metric: best_of(held) for metric, held in results.items()}

    def cell(metric: str, alpha: float) -> Cell:
        one = results[metric][alpha]
        return Cell(with_sd(one.mean, one.sd), best[metric] == alpha)

    rows = [row(short(alpha), *(cell(metric, alpha) for metric in results)) for alpha in results[METRICS[0]]]
    return Table(["alpha", *(TITLES[metric].title for metric in results)], rows)


def _paper(score: published.Score | None) -> str:
    return NOTHING if score is None else with_sd(*score)


def gain_table(scores: Scores, task: str, paper: str | None) -> Table:
    """GAR against MAE and against the best of its rivals, by both tests; ``paper`` is the table with the published gains.

    The best of some rivals is not held against the paper's best of all.
    """
    columns = ["Metric", "against", "gain", "paper's", "p (t-test)", "paper's", "p (corrected)"]
    is_complete = scores.is_complete(task)
    title = "best" if is_complete else "best of those run"
    rows = []
    for metric in METRICS:
        results = scores.results(task, metric)
        theirs = {} if paper is None else published.gains(paper).get((PUBLISHED_TASK.get(task, task), metric), {})
        rival = best_rival(results)
        best = "best rival" if rival is None else f"{title}: {_title(scores, task, rival)}"
        theirs = theirs if is_complete else {name: value for name, value in theirs.items() if name.endswith("_mae")}
        for kind, name, one in (("mae", "MAE", duel_with(results, BASELINE)), ("best", best, duel_with(results, rival))):
            rows.append(row(TITLES[metric].title, name, *_duel_cells(one, theirs, kind)))
    return Table(columns, rows)


def best_rival(results: Mapping[str, Result]) -> str | None:
    return best_of({name: one for name, one in results.items() if name != CHAMPION})


def duel_with(results: Mapping[str, Result], rival: str | None) -> Duel | None:
    """None unless both were run."""
    if rival is None or rival not in results or CHAMPION not in results:
        return None
    return duel(results[CHAMPION], results[rival], rival)


def _duel_cells(one: Duel | None, theirs: Mapping[str, float], kind: str) -> list[str]:
    gain, p = theirs.get(f"gain_over_{kind}"), theirs.get(f"p_against_{kind}")
    paper_gain, paper_p = NOTHING if gain is None else percent(gain), NOTHING if p is None else f"{p:g}"
    if one is None:
        return [NOT_RUN, paper_gain, NOT_RUN, paper_p, NOT_RUN]
    return [percent(one.gain), paper_gain, probability(one.p), paper_p, probability(one.p_corrected)]


def _title(scores: Scores, task: str, variant: str) -> str:
    return next(unit.title for unit in scores.units_of(task) if unit.variant == variant)


def near_count(scores: Scores) -> tuple[int, int]:
    """How many cells are near the paper's, of how many that can be compared."""
    flags = scores.nearness().values()
    return sum(flags), len(flags)
