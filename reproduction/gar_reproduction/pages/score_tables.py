"""Tables of scores: ours beside the paper's."""

from collections.abc import Mapping

from gar.app.report.style import NOTHING, percent, probability, short
from gar.registry import BASELINE, LOSSES, METHOD_OF_INTEREST, METRICS
from gar.statistics import Comparison
from gar_reproduction import published
from gar_reproduction.names import PUBLISHED_TASK, TABLE_METRICS
from gar_reproduction.pages.blocks import HIT, MISS, NOT_RUN, PageTable
from gar_reproduction.published import with_sd
from gar_reproduction.scores import Result, Scores, best_of

_MEANS = "Mean(standard deviation) over the five folds."
LEGEND = f"{_MEANS} {HIT}: within two (paper's sd + our sd) of the published mean; {MISS}: not."
BOLD = "Bold: the best mean of a column."


def legend(scores: Scores) -> str:
    """Explain the entries of a table of scores, with its marks only where the paper has such a table."""
    return LEGEND if scores.paper else _MEANS


def score_table(scores: Scores, task: str) -> PageTable:
    """Return the methods of one task by metric, each of our scores beside the paper's."""
    has_paper = any(scores.published(task, cell.variant, TABLE_METRICS[0]) for cell in scores.cells_of(task))
    columns = ["Method"]
    for metric in TABLE_METRICS:
        columns += [METRICS[metric].title, *(["paper"] if has_paper else [])]
    rows = []
    for cell in scores.cells_of(task):
        entries = [cell.title]
        for metric in TABLE_METRICS:
            theirs = scores.published(task, cell.variant, metric)
            is_best = scores.best(task, metric) == cell.variant
            missing = "diverged" if (task, cell.variant) in scores.summaries else NOT_RUN
            entries.append(_ours(scores.ours.get((task, cell.variant, metric)), theirs, missing, is_best=is_best))
            entries += [NOTHING if theirs is None else with_sd(*theirs)] if has_paper else []
        rows.append(entries)
    return PageTable(columns, rows)


def _ours(one: Result | None, theirs: published.Score | None, missing: str, *, is_best: bool) -> str:
    if one is None:
        return missing
    flag = "" if theirs is None else f" {HIT}" if one.is_near(theirs) else f" {MISS}"
    text = with_sd(one.mean, one.sd) + flag
    return f"**{text}**" if is_best else text


def alpha_table(results: Mapping[str, Mapping[float, Result]]) -> PageTable:
    """Return GAR's scores with alpha fixed at each value; ``results`` are by metric and alpha."""
    best = {metric: best_of(by_alpha) for metric, by_alpha in results.items()}

    def entry(metric: str, alpha: float) -> str:
        return _ours(results[metric][alpha], None, NOT_RUN, is_best=best[metric] == alpha)

    rows = [[short(alpha), *(entry(metric, alpha) for metric in results)] for alpha in results[TABLE_METRICS[0]]]
    return PageTable(["alpha", *(METRICS[metric].title for metric in results)], rows)


def gain_table(scores: Scores, task: str, paper: str | None) -> PageTable:
    """Compare GAR with MAE and with the best of its rivals, by both tests; ``paper`` is the table with the published gains.

    Where some rivals were not run, their best is not compared with the paper's best of all.
    """
    columns = ["Metric", "against", "gain", "paper's", "p (t-test)", "paper's", "p (corrected)"]
    is_complete = scores.is_complete(task)
    title = "best" if is_complete else "best of those run"
    rows = []
    for metric in TABLE_METRICS:
        results = scores.results(task, metric)
        theirs = {} if paper is None else published.gains(paper).get((PUBLISHED_TASK.get(task, task), metric), {})
        theirs = theirs if is_complete else {name: value for name, value in theirs.items() if name.endswith("_mae")}
        best = best_of({name: one for name, one in results.items() if name != METHOD_OF_INTEREST})
        named = "best rival" if best is None else f"{title}: {scores.title(task, best)}"
        for kind, name, rival in (("mae", LOSSES[BASELINE].title, BASELINE), ("best", named, best)):
            rows.append([METRICS[metric].title, name, *_gain_entries(_comparison(results, rival), theirs, kind)])
    return PageTable(columns, rows)


def _comparison(results: Mapping[str, Result], rival: str | None) -> Comparison | None:
    """Compare the method of interest with a rival; None unless both were run."""
    if rival is None or rival not in results or METHOD_OF_INTEREST not in results:
        return None
    return results[METHOD_OF_INTEREST].against(results[rival])


def _gain_entries(one: Comparison | None, theirs: Mapping[str, float], kind: str) -> list[str]:
    gain, p = theirs.get(f"gain_over_{kind}"), theirs.get(f"p_against_{kind}")
    paper_gain, paper_p = NOTHING if gain is None else percent(gain), NOTHING if p is None else f"{p:g}"
    if one is None:
        return [NOT_RUN, paper_gain, NOT_RUN, paper_p, NOT_RUN]
    return [percent(one.gain), paper_gain, probability(one.p), paper_p, probability(one.p_corrected)]
