"""The scores of an experiment, ours and the paper's, ready for tables, figures and claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gar.errors import InputError
from gar_reproduction import published
from gar_reproduction.digest import Digest
from gar_reproduction.experiments import units
from gar_reproduction.names import METRICS, PUBLISHED_TASK
from gar_reproduction.scores import Result, best_of, read_digests, result
from gar_reproduction.unit import Unit


@dataclass(frozen=True)
class Scores:
    """One experiment: its units, and the digests and results that are there."""

    units: tuple[Unit, ...]
    digests: Mapping[tuple[str, str], Digest]
    ours: Mapping[tuple[str, str, str], Result]
    """By task, variant and metric."""
    paper: Mapping[tuple[str, str, str], published.Score]
    """By the same; empty where the paper has no such experiment."""

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(unit.task for unit in self.units))

    @property
    def run_tasks(self) -> list[str]:
        """Of which anything was run."""
        return [task for task in self.tasks if any(key[0] == task for key in self.digests)]

    def units_of(self, task: str) -> list[Unit]:
        return [unit for unit in self.units if unit.task == task]

    def has(self, variant: str) -> bool:
        """Whether there is any number of it, ours or the paper's."""
        return any(name == variant for _, name, _ in (*self.ours, *self.paper))

    def published(self, task: str, variant: str, metric: str) -> published.Score | None:
        return self.paper.get((PUBLISHED_TASK.get(task, task), variant, metric))

    def nearness(self) -> dict[tuple[str, str, str], bool]:
        """Whether a score of ours is near the paper's, of those that it has too."""
        pairs = {key: (one, self.published(*key)) for key, one in self.ours.items()}
        return {key: one.is_near(theirs) for key, (one, theirs) in pairs.items() if theirs is not None}

    def results(self, task: str, metric: str) -> dict[str, Result]:
        """Ours by variant, in the order of units."""
        found = {unit.variant: self.ours.get((task, unit.variant, metric)) for unit in self.units_of(task)}
        return {variant: one for variant, one in found.items() if one is not None}

    def best(self, task: str, metric: str) -> str | None:
        return best_of(self.results(task, metric))

    def is_complete(self, task: str) -> bool:
        return all((task, unit.variant) in self.digests for unit in self.units_of(task))


PAPER_TABLES: Mapping[str, str] = {
    "table1": "table1",
    "standardized": "standardized",
    "ablation": "ablation",
    "batch-size": "batch-size",
    "train-statistics": "table1",
    "differences": "table1",
}
"""The published table that an experiment is held against."""
REPRODUCED = tuple(name for name, paper in PAPER_TABLES.items() if name == paper)
"""Experiments that are the paper's own; the others differ from it by intention."""


def read_scores(records: Path, experiment: str, chosen: Sequence[Unit] | None = None) -> Scores:
    """All of an experiment that is among the records, or of some of its units."""
    wanted = tuple(units(experiment) if chosen is None else chosen)
    digests = read_digests(records, wanted)
    ours = {(*key, metric): one for key, digest in digests.items() for metric in METRICS if (one := _result(digest, metric))}
    paper = PAPER_TABLES.get(experiment)
    return Scores(wanted, digests, ours, {} if paper is None else published.scores(paper))


def _result(digest: Digest, metric: str) -> Result | None:
    """None where every model of a fold diverged at once."""
    try:
        return result(digest, metric)
    except InputError:
        return None
