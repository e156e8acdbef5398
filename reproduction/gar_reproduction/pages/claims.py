"""What the paper claims, and whether it holds in our runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gar.app.report.formatting import NOTHING, percent, short
from gar.metrics import LARGER_IS_BETTER
from gar.registry import METHOD_OF_INTEREST as CHAMPION
from gar.registry import METRICS as TITLES
from gar_reproduction import published
from gar_reproduction.experiments import VARIANTS
from gar_reproduction.names import METRICS, PUBLISHED_TASK, TASKS
from gar_reproduction.pages.blocks import NOT_RUN, Block, Heading, Table, row
from gar_reproduction.pages.numbers import Scores, read_scores
from gar_reproduction.pages.timing import read_times
from gar_reproduction.scores import mean_ranks, results_by_parameter

HOLDS, FAILS, OPEN = "holds", "does not hold", "open"
AS_FAST = 1.1
"""GAR's epoch is called as fast as MAE's up to this ratio."""
RECOMMENDED_BATCHES = ("32", "64", "128")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what we found, and the numbers."""

    text: str
    counted: str
    """What counts as holding."""
    verdict: str
    table: Table


def claims(records: Path) -> list[Claim]:
    """All claims of the tables."""
    makers: Sequence[Callable[[Path], Claim]] = (_best_correlations, _as_fast_as_mae, _ablation, _alpha_range, _small_batches)
    return [make(records) for make in makers]


def claim_blocks(records: Path) -> list[Block]:
    """A summary, then the numbers of each claim."""
    found = claims(records)
    summary = Table(["The paper says", "In our runs"], [row(claim.text, claim.verdict) for claim in found])
    blocks: list[Block] = [summary]
    for claim in found:
        blocks += [Heading(claim.text), f"In our runs: {claim.verdict}. {claim.counted}", claim.table]
    return blocks


def _verdict(flags: Sequence[bool], *, whole: bool, otherwise: str = FAILS) -> str:
    """Of what was run; the rest is said. ``otherwise`` is the word unless all flags are set."""
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
            ours = _named(scores, task, best) if _is_decided(scores, task, best) else NOT_RUN
            flags += [] if ours == NOT_RUN else [best == CHAMPION]
            rows.append(row(TASKS[task], TITLES[metric].title, ours, _paper_best(scores, task, metric)))
    text = "GAR is best in Pearson and Spearman on every task"
    verdict = _verdict(flags, whole=all(scores.is_complete(task) for task in scores.tasks))
    counted = "Counted: tasks and metrics in which GAR has the best mean of nine."
    return Claim(text, counted, verdict, Table(["Task", "Metric", "best of ours", "best of the paper's"], rows))


def _is_decided(scores: Scores, task: str, best: str | None) -> bool:
    """One rival ahead of GAR is enough to say that it is not the best; that it is, only all of them can say."""
    return scores.is_complete(task) or ((task, CHAMPION) in scores.digests and best != CHAMPION)


def _named(scores: Scores, task: str, variant: str | None) -> str:
    return next((unit.title for unit in scores.units_of(task) if unit.variant == variant), NOTHING)


def _paper_best(scores: Scores, task: str, metric: str) -> str:
    key = PUBLISHED_TASK.get(task, task)
    found = {variant: one.mean for (where, variant, what), one in scores.paper.items() if (where, what) == (key, metric)}
    if not found:
        return NOTHING
    best = (max if LARGER_IS_BETTER[metric] else min)(found.values())
    return ", ".join(_named(scores, task, variant) for variant, mean in found.items() if mean == best)


def _as_fast_as_mae(records: Path) -> Claim:
    times = read_times(records)
    rows, flags = [], []
    tasks = list(dict.fromkeys(task for task, _ in times))
    for task in tasks:
        ours = {kind: _ratio(times, task, kind) for kind in ("all", "loss")}
        theirs = [_paper_ratio(task, kind) for kind in ("all", "loss")]
        flags += [] if ours["all"] is None else [ours["all"] <= AS_FAST]
        shown = [NOT_RUN if one is None else f"{one:.2f}" for one in ours.values()]
        rows.append(row(TASKS[task], shown[0], theirs[0], shown[1], theirs[1]))
    text = "GAR's epoch is as fast as MAE's"
    columns = ["Task", "whole epoch, GAR / MAE", "paper's", "loss alone, GAR / MAE", "paper's"]
    counted = f"Counted: tasks in which the median of GAR's epochs is at most {AS_FAST} times that of MAE's."
    return Claim(text, counted, _verdict(flags, whole=True), Table(columns, rows))


def _ratio(times: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]], task: str, kind: str) -> float | None:
    both = [times.get((task, method)) for method in ("gar", "mae")]
    return None if both[0] is None or both[1] is None else both[0][kind]["median"] / both[1][kind]["median"]


def _paper_ratio(task: str, kind: str) -> str:
    paper = published.running_times()
    both = [paper.get((task, method, kind)) for method in ("gar", "mae")]
    return NOTHING if both[0] is None or both[1] is None else f"{both[0].mean / both[1].mean:.2f}"


def _ablation(records: Path) -> Claim:
    scores = read_scores(records, "ablation")
    tasks = [task for task in scores.tasks if all(len(scores.results(task, metric)) == len(VARIANTS) for metric in METRICS)]
    keys = [(task, metric) for task in tasks for metric in METRICS]
    directions = [LARGER_IS_BETTER[metric] for _, metric in keys]
    ours = mean_ranks([{v: scores.ours[task, v, metric].mean for v in VARIANTS} for task, metric in keys], directions)
    same = mean_ranks([{v: scores.paper[task, v, metric].mean for v in VARIANTS} for task, metric in keys], directions)
    rows = [row(name, _rank(ours, name), _rank(same, name), f"{rank:.3f}") for name, rank in published.ablation_ranks().items()]
    flags = [ours[CHAMPION] == min(ours.values())] if ours else []
    columns = ["Components", "mean rank, ours", "paper's on the same tasks", "paper's on its six"]
    counted = "Ranks are means over tasks and metrics; equal means share their ranks."
    text = "GAR with all three components has the best mean rank"
    return Claim(text, counted, _verdict(flags, whole=len(tasks) == len(scores.tasks)), Table(columns, rows))


def _rank(ranks: Mapping[str, float], variant: str) -> str:
    return f"{ranks[variant]:.3f}" if variant in ranks else NOT_RUN


def _alpha_range(records: Path) -> Claim:
    """The paper tries nothing outside of its range: what can be seen is where in it the best is, and what a bad choice costs."""
    scores = read_scores(records, "alpha")
    rows, flags = [], []
    for task in scores.run_tasks:
        for metric in METRICS:
            means = {alpha: one.mean for alpha, one in results_by_parameter(scores.digests[task, "gar"], metric).items()}
            order = sorted(means, key=lambda alpha: means[alpha], reverse=LARGER_IS_BETTER[metric])
            best, worst = order[0], order[-1]
            cost = 100 * abs(means[worst] - means[best]) / abs(means[best])
            flags.append(min(means) < best < max(means))
            rows.append(row(TASKS[task], TITLES[metric].title, short(best), short(worst), percent(cost)))
    columns = ["Task", "Metric", "best alpha", "worst alpha", "worst against best"]
    text = "alpha is to be tuned in [0.1, 10]"
    counted = (
        "Counted: tasks and metrics whose best alpha is inside the range. Nothing outside of it was tried, so a best value at an "
        "end leaves open whether the range is too narrow."
    )
    verdict = _verdict(flags, whole=len(scores.run_tasks) == len(scores.tasks), otherwise=OPEN)
    return Claim(text, counted, verdict, Table(columns, rows))


def _small_batches(records: Path) -> Claim:
    scores = read_scores(records, "batch-size")
    tasks = [task for task in scores.tasks if scores.is_complete(task)]
    rows, flags = [], []
    for task in tasks:
        for metric in METRICS:
            best = scores.best(task, metric)
            flags.append(best in RECOMMENDED_BATCHES)
            rows.append(
                row(TASKS[task], TITLES[metric].title, best or NOTHING, _paper_best(scores, task, metric).removeprefix("batch "))
            )
    text = "batches of 32 to 128 rows are better than 256 and 512"
    columns = ["Task", "Metric", "best batch size, ours", "paper's"]
    counted = "Counted: tasks and metrics in which one of the smaller sizes has the best mean."
    return Claim(text, counted, _verdict(flags, whole=len(tasks) == len(scores.tasks)), Table(columns, rows))
