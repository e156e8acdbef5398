"""From summaries to numbers: each fold's winner, means, gains, p-values, and whether they agree with the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy.stats import rankdata

from gar.errors import InputError
from gar.registry import METRICS
from gar.search import Selection, select
from gar.statistics import Comparison, compare_scores
from gar_reproduction import published
from gar_reproduction.cell import Cell
from gar_reproduction.experiments import cells
from gar_reproduction.names import PUBLISHED_TASK, TABLE_METRICS
from gar_reproduction.summary import Summary, read_summaries

K = TypeVar("K")


def winners(summary: Summary, metric: str, *, parameter: float | None = None) -> Selection:
    """Return each fold's best model on the validation rows: what :func:`gar.search.select` chooses from the whole history.

    Args:
        summary: of a cell.
        metric: that chooses.
        parameter: among models with this value of the loss's parameter only. ``model`` is then an index among these.
    """
    if parameter is None or summary.models.parameter is None:
        return select(summary.history, summary.models, metric)
    indices = np.flatnonzero(summary.models.parameter == parameter)
    return select(summary.history.take(indices), summary.models.take(indices), metric)


@dataclass(frozen=True)
class Result:
    """Test scores of the folds' winners by one metric."""

    metric: str
    values: tuple[float, ...]
    train_rows: float
    test_rows: float

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def sd(self) -> float:
        """Standard deviation, divided by the number of folds as in the paper."""
        return float(np.std(self.values))

    def is_near(self, published: published.Score) -> bool:
        """Return True if the means differ by at most two (our sd + the paper's sd), and the paper's rounding to three digits."""
        return abs(self.mean - published.mean) <= 2 * (self.sd + published.sd) + 0.5e-3

    def against(self, rival: "Result") -> Comparison:
        """Compare this method with a rival on the same folds."""
        rows = {"train_rows": self.train_rows, "test_rows": self.test_rows}
        return compare_scores(self.values, rival.values, larger_is_better=METRICS[self.metric].larger_is_better, **rows)


def result(summary: Summary, metric: str, *, parameter: float | None = None) -> Result:
    """Return the test scores of a cell. Errors of standardised labels are divided by each fold's standard deviation of labels."""
    values = winners(summary, metric, parameter=parameter).of("test", metric)
    scales = summary.about["label_scales"]
    if scales is not None and metric in ("mae", "rmse"):
        values = values / np.array(scales)[:, 0]
    return Result(metric, tuple(values.tolist()), summary.about["train_rows"], summary.about["test_rows"])


def results_by_parameter(summary: Summary, metric: str) -> dict[float, Result]:
    """Return the result with each value of the loss's parameter alone, from the smallest value up."""
    assert summary.models.parameter is not None
    return {value: result(summary, metric, parameter=value) for value in np.unique(summary.models.parameter).tolist()}


def best_of(results: Mapping[K, Result]) -> K | None:
    """Return the name of the best mean; the first of equals, None if there is no result."""
    return max(results, key=lambda name: METRICS[results[name].metric].sign * results[name].mean, default=None)


def mean_ranks(rows: Sequence[Mapping[str, float]], larger_is_better: Sequence[bool]) -> dict[str, float]:
    """Return the mean over rows of each name's rank, 1 being the best; equal values share the mean of their ranks.

    Example:
        >>> mean_ranks([{"a": 1.0, "b": 2.0}, {"a": 0.5, "b": 0.5}], [False, True])
        {'a': 1.25, 'b': 1.75}
    """
    if not rows:
        return {}
    signs = np.where(larger_is_better, -1.0, 1.0)
    ranks = np.array([rankdata(sign * np.array(list(row.values()))) for row, sign in zip(rows, signs, strict=True)])
    return dict(zip(rows[0], ranks.mean(0).tolist(), strict=True))


@dataclass(frozen=True)
class Scores:
    """The scores of one experiment, ours and the paper's."""

    cells: tuple[Cell, ...]
    summaries: Mapping[tuple[str, str], Summary]
    """Summaries of the cells that were run, by task and variant."""
    ours: Mapping[tuple[str, str, str], Result]
    """Our results by task, variant and metric."""
    paper: Mapping[tuple[str, str, str], published.Score]
    """Published scores by task, variant and metric; empty where the paper has no such experiment."""

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(cell.task for cell in self.cells))

    @property
    def run_tasks(self) -> list[str]:
        """Tasks with at least one record."""
        return [task for task in self.tasks if any(key[0] == task for key in self.summaries)]

    def cells_of(self, task: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.task == task]

    def title(self, task: str, variant: str | None) -> str | None:
        """Return the title of a variant; None if the task has no such cell."""
        return next((cell.title for cell in self.cells_of(task) if cell.variant == variant), None)

    def has(self, variant: str) -> bool:
        """Return True if there is any score of a variant, ours or the paper's."""
        return any(name == variant for _, name, _ in (*self.ours, *self.paper))

    def published(self, task: str, variant: str, metric: str) -> published.Score | None:
        return self.paper.get((PUBLISHED_TASK.get(task, task), variant, metric))

    def agreement(self) -> dict[tuple[str, str, str], bool]:
        """For each score the paper reports, whether ours agrees."""
        pairs = {key: (one, self.published(*key)) for key, one in self.ours.items()}
        return {key: one.is_near(theirs) for key, (one, theirs) in pairs.items() if theirs is not None}

    @property
    def agreement_count(self) -> tuple[int, int]:
        """How many scores agree with the paper's, and how many can be compared."""
        flags = self.agreement().values()
        return sum(flags), len(flags)

    def results(self, task: str, metric: str) -> dict[str, Result]:
        """Return our results by variant, in the order of cells."""
        found = {cell.variant: self.ours.get((task, cell.variant, metric)) for cell in self.cells_of(task)}
        return {variant: one for variant, one in found.items() if one is not None}

    def best(self, task: str, metric: str) -> str | None:
        return best_of(self.results(task, metric))

    def is_complete(self, task: str) -> bool:
        return all((task, cell.variant) in self.summaries for cell in self.cells_of(task))


REPRODUCED = ("table1", "standardized", "ablation", "batch-size")
"""Experiments that are the paper's own; the others differ from it on purpose."""
PAPER_TABLES = {name: name for name in REPRODUCED} | {"train-statistics": "table1", "differences": "table1"}
"""The published table that an experiment is compared with."""


def read_scores(records: Path, experiment: str, chosen: Sequence[Cell] | None = None) -> Scores:
    """Return the recorded scores of an experiment, or of some of its cells."""
    wanted = tuple(cells(experiment) if chosen is None else chosen)
    summaries = read_summaries(records, wanted)
    ours = {
        (*key, metric): one for key, summary in summaries.items() for metric in TABLE_METRICS if (one := _result(summary, metric))
    }
    paper = PAPER_TABLES.get(experiment)
    return Scores(wanted, summaries, ours, {} if paper is None else published.scores(paper))


def _result(summary: Summary, metric: str) -> Result | None:
    """Return None where every model of a fold diverged in its first epoch."""
    try:
        return result(summary, metric)
    except InputError:
        return None
