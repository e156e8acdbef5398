"""The paper's claims, and whether they hold in our runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gar.app.report.style import NOTHING, percent, short
from gar.registry import METHOD_OF_INTEREST, METRICS
from gar_reproduction import published
from gar_reproduction.experiments import COMPONENT_SETS
from gar_reproduction.names import PUBLISHED_TASK, TABLE_METRICS, TASKS
from gar_reproduction.pages.blocks import NOT_RUN, Block, PageTable
from gar_reproduction.scores import Scores, mean_ranks, read_scores, results_by_parameter
from gar_reproduction.timing import Times, read_times

HOLDS, FAILS, OPEN = "holds", "does not hold", "open"
AS_FAST = 1.1
"""Up to this ratio GAR's epoch counts as being as fast as MAE's."""
RECOMMENDED_BATCHES = ("32", "64", "128")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our verdict, and the numbers behind it."""

    text: str
    counted: str
    """The rule by which it is counted."""
    verdict: str
    table: PageTable


def claims(records: Path) -> list[Claim]:
    """Return all claims about the tables."""
    makers: Sequence[Callable[[Path], Claim]] = (_best_correlations, _as_fast_as_mae, _ablation, _alpha_range, _small_batches)
    return [make(records) for make in makers]


def claim_blocks(records: Path) -> list[Block]:
    """Return a table of verdicts, then the numbers of each claim."""
    found = claims(records)
    summary = PageTable(["The paper says", "In our runs"], [[claim.text, claim.verdict] for claim in found])
    blocks: list[Block] = [summary]
    for claim in found:
        blocks += [f"## {claim.text}", f"In our runs: {claim.verdict}. {claim.counted}", claim.table]
    return blocks


def _verdict(flags: Sequence[bool], *, whole: bool, otherwise: str = FAILS) -> str:
    """Return the verdict over the runs that exist, and whether some are missing; ``otherwise`` is the word unless all agree."""
    if not flags:
        return NOT_RUN
    answer = HOLDS if all(flags) else otherwise
    count = f"{sum(flags)} of {len(flags)}"
    return f"{answer} ({count}{'' if whole else ', not all was run'})"


def _best_correlations(records: Path) -> Claim:
    scores = read_scores(records, "table1")
    rows, flags = [], []
    for task in scores.tasks:
        for metric in ("pearson", "spearman"):
            best = scores.best(task, metric)
            ours = (scores.title(task, best) or NOTHING) if _is_decided(scores, task, best) else NOT_RUN
            flags += [] if ours == NOT_RUN else [best == METHOD_OF_INTEREST]
            rows.append([TASKS[task], METRICS[metric].title, ours, _paper_best(scores, task, metric)])
    text = "GAR is best in Pearson and Spearman on every task"
    verdict = _verdict(flags, whole=all(scores.is_complete(task) for task in scores.tasks))
    counted = "Counted: tasks and metrics in which GAR has the best mean of nine."
    return Claim(text, counted, verdict, PageTable(["Task", "Metric", "best of ours", "best of the paper's"], rows))


def _is_decided(scores: Scores, task: str, best: str | None) -> bool:
    """Return True if the runs decide who is best: one rival ahead of GAR refutes the claim, and only all of them confirm it."""
    return scores.is_complete(task) or ((task, METHOD_OF_INTEREST) in scores.summaries and best != METHOD_OF_INTEREST)


def _paper_best(scores: Scores, task: str, metric: str) -> str:
    key = PUBLISHED_TASK.get(task, task)
    found = {variant: one.mean for (where, variant, what), one in scores.paper.items() if (where, what) == (key, metric)}
    if not found:
        return NOTHING
    best = (max if METRICS[metric].larger_is_better else min)(found.values())
    return ", ".join(scores.title(task, variant) or NOTHING for variant, mean in found.items() if mean == best)


def _as_fast_as_mae(records: Path) -> Claim:
    times = read_times(records)
    rows, flags = [], []
    tasks = list(dict.fromkeys(task for task, _ in times))
    for task in tasks:
        ours = {kind: _ratio(times, task, kind) for kind in ("all", "loss")}
        theirs = [_paper_ratio(task, kind) for kind in ("all", "loss")]
        flags += [] if ours["all"] is None else [ours["all"] <= AS_FAST]
        shown = [NOT_RUN if one is None else f"{one:.2f}" for one in ours.values()]
        rows.append([TASKS[task], shown[0], theirs[0], shown[1], theirs[1]])
    text = "GAR's epoch is as fast as MAE's"
    columns = ["Task", "whole epoch, GAR / MAE", "paper's", "loss alone, GAR / MAE", "paper's"]
    counted = f"Counted: tasks in which the median of GAR's epochs is at most {AS_FAST} times that of MAE's."
    return Claim(text, counted, _verdict(flags, whole=True), PageTable(columns, rows))


def _ratio(times: Times, task: str, kind: str) -> float | None:
    both = [times.get((task, method)) for method in ("gar", "mae")]
    return None if both[0] is None or both[1] is None else both[0][kind]["median"] / both[1][kind]["median"]


def _paper_ratio(task: str, kind: str) -> str:
    paper = published.running_times()
    both = [paper.get((task, method, kind)) for method in ("gar", "mae")]
    return NOTHING if both[0] is None or both[1] is None else f"{both[0].mean / both[1].mean:.2f}"


def _ablation(records: Path) -> Claim:
    scores = read_scores(records, "ablation")
    counts = {task: min(len(scores.results(task, metric)) for metric in TABLE_METRICS) for task in scores.tasks}
    tasks = [task for task, count in counts.items() if count == len(COMPONENT_SETS)]
    keys = [(task, metric) for task in tasks for metric in TABLE_METRICS]
    directions = [METRICS[metric].larger_is_better for _, metric in keys]
    ours = mean_ranks([{v: scores.ours[task, v, metric].mean for v in COMPONENT_SETS} for task, metric in keys], directions)
    same = mean_ranks([{v: scores.paper[task, v, metric].mean for v in COMPONENT_SETS} for task, metric in keys], directions)
    shown = [{name: f"{rank:.3f}" for name, rank in ranks.items()} for ranks in (ours, same, published.ablation_ranks())]
    rows = [[name, *(ranks.get(name, NOT_RUN) for ranks in shown)] for name in shown[-1]]
    flags = [ours[METHOD_OF_INTEREST] == min(ours.values())] if ours else []
    columns = ["Components", "mean rank, ours", "paper's on the same tasks", "paper's on its six"]
    counted = "Ranks are means over tasks and metrics; equal means share their ranks."
    text = "GAR with all three components has the best mean rank"
    return Claim(text, counted, _verdict(flags, whole=len(tasks) == len(scores.tasks)), PageTable(columns, rows))


def _alpha_range(records: Path) -> Claim:
    """Report where in the range the best alpha is, and what a bad choice costs: like the paper, we try nothing outside of it."""
    scores = read_scores(records, "alpha")
    rows, flags = [], []
    for task in scores.run_tasks:
        for metric in TABLE_METRICS:
            means = {alpha: one.mean for alpha, one in results_by_parameter(scores.summaries[task, "gar"], metric).items()}
            order = sorted(means, key=lambda alpha: means[alpha], reverse=METRICS[metric].larger_is_better)
            best, worst = order[0], order[-1]
            cost = 100 * abs(means[worst] - means[best]) / abs(means[best])
            flags.append(min(means) < best < max(means))
            rows.append([TASKS[task], METRICS[metric].title, short(best), short(worst), percent(cost)])
    columns = ["Task", "Metric", "best alpha", "worst alpha", "worst against best"]
    text = "alpha is to be tuned in [0.1, 10]"
    counted = (
        "Counted: tasks and metrics whose best alpha is inside the range. Nothing outside of it was tried, so a best value at an "
        "end leaves open whether the range is too narrow."
    )
    verdict = _verdict(flags, whole=len(scores.run_tasks) == len(scores.tasks), otherwise=OPEN)
    return Claim(text, counted, verdict, PageTable(columns, rows))


def _small_batches(records: Path) -> Claim:
    scores = read_scores(records, "batch-size")
    tasks = [task for task in scores.tasks if scores.is_complete(task)]
    rows, flags = [], []
    for task in tasks:
        for metric in TABLE_METRICS:
            best = scores.best(task, metric)
            flags.append(best in RECOMMENDED_BATCHES)
            theirs = _paper_best(scores, task, metric).removeprefix("batch ")
            rows.append([TASKS[task], METRICS[metric].title, best or NOTHING, theirs])
    text = "batches of 32 to 128 rows are better than 256 and 512"
    columns = ["Task", "Metric", "best batch size, ours", "paper's"]
    counted = "Counted: tasks and metrics in which one of the smaller sizes has the best mean."
    return Claim(text, counted, _verdict(flags, whole=len(tasks) == len(scores.tasks)), PageTable(columns, rows))
