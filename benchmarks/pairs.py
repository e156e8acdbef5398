"""Pairs within groups, and along rows and columns: correlations of GAR with and without them, of MAE and of MSE.

    GAR_DATA_HOME=... python -m benchmarks.pairs [TABLE ...]
    python -m benchmarks.pairs --page

The first trains on the tables (all without a name) and records their scores, the second writes the tables of docs/pairs.md.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import GroupKFold, KFold

from benchmarks import matrix
from benchmarks.against.tables import frame_of
from benchmarks.pages import write_tables
from gar import GARRegressor
from gar.files import write_whole
from gar.group_metrics import within_groups
from gar_reproduction.data.loading import load

ROOT = Path(__file__).parent.parent
PAGE, RECORDS = ROOT / "docs" / "pairs.md", ROOT / "benchmarks" / "records" / "pairs"
ROWS, FOLDS, NETWORKS = 2000, 5, 2

METHODS: dict[str, dict[str, Any]] = {
    "MAE": {"loss": "mae"},
    "MSE": {"loss": "mse"},
    "GAR": {},
    "GAR in groups": {},
    "GAR in groups, no levels": {"loss_options": {"components": ("diff", "diffnorm")}},
}


class Problem(NamedTuple):
    """Features, labels, groups of rows, and folds of training and test rows; ``truth`` are labels without noise, if known."""

    x: Any
    y: np.ndarray
    groups: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    truth: np.ndarray | None = None


def days() -> Problem:
    """Return 80 days of 25 rows with a common shock, ten times as large as what features say; each fold holds out 16 of them."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(80), 25)
    x = random.normal(size=(len(groups), 5))
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3]
    signal /= signal.std()
    y = signal + 0.5 * random.normal(size=len(signal)) + 10 * random.normal(size=80)[groups]
    return Problem(x, y, groups, list(GroupKFold(FOLDS).split(x, groups=groups)), signal)


def wages() -> Problem:
    """Return wages of women over the years, by person; whole persons are held out."""
    frame = frame_of("nlswork_wages")
    persons = np.random.default_rng(0).permutation(frame["idcode"].unique())
    rows = np.concatenate([np.flatnonzero(frame["idcode"] == person) for person in persons[:400]])[:ROWS]
    return _table(frame.iloc[np.sort(rows)], "idcode", by_group=True)


def air() -> Problem:
    """Return fine dust in Beijing by station; hours are held out, of all stations."""
    frame = frame_of("beijing_air_pm25").sample(ROWS, random_state=0)
    return _table(frame, "station", by_group=False)


def parkinson() -> Problem:
    """Return the total score of Parkinson patients by patient; recordings are held out, of all patients."""
    table = load("parkinson-total")
    assert table.groups is not None
    groups = np.unique(table.groups, return_inverse=True)[1]
    rows = np.random.default_rng(0).permutation(len(groups))[:ROWS]
    folds = list(KFold(FOLDS).split(rows))
    return Problem(table.x[rows], table.y[rows, 0], groups[rows], folds)


def _table(frame: Any, group: str, *, by_group: bool) -> Problem:
    groups = np.unique(frame[group], return_inverse=True)[1]
    splitter = (GroupKFold if by_group else KFold)(FOLDS, shuffle=True, random_state=0)
    folds = list(splitter.split(groups, groups=groups if by_group else None))
    return Problem(frame.drop(columns=[group, "target"]), frame["target"].to_numpy(np.float64), groups, folds)


TABLES: dict[str, Callable[[], Problem]] = {
    "generated days": days,
    "nlswork wages by person": wages,
    "Beijing air by station": air,
    "Parkinson by patient": parkinson,
}
MATRIX = "GDSC release 5"


def scores(problem: Problem, method: str) -> dict[str, list[float]]:
    """Return the mean correlation within groups of test rows, and their mean absolute error, of every fold."""
    found: dict[str, list[float]] = {"within": [], "mae": []}
    for seed, (train, test) in enumerate(problem.folds):
        model = GARRegressor(n_networks=NETWORKS, random_state=seed, **METHODS[method])
        pairs = {"pair_groups": problem.groups[train]} if "groups" in method else {}
        predicted = model.fit(_rows(problem.x, train), problem.y[train], **pairs).predict(_rows(problem.x, test))
        found["within"].append(_within(predicted, problem, test))
        found["mae"].append(float(np.abs(predicted - problem.y[test]).mean()))
    return found


def _rows(x: Any, rows: np.ndarray) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x.iloc[rows]


def _within(predicted: np.ndarray, problem: Problem, rows: np.ndarray) -> float:
    tensors = (torch.from_numpy(values) for values in (predicted, problem.y[rows], problem.groups[rows]))
    return float(within_groups(*tensors)["pearson"])


def record(name: str) -> None:
    """Train on one table and write its record, again after every method."""
    found: dict[str, dict[str, list[float]]] = {}
    for method, run in _runs(name).items():
        found[method] = run()
        write_whole(_path(name), (json.dumps(found, indent=1) + "\n").encode())


def _selected(run: Callable[[], matrix.Scored]) -> dict[str, list[float]]:
    return run().selected()


def _runs(name: str) -> dict[str, Callable[[], dict[str, list[float]]]]:
    """Return what gives the scores of every method on a table."""
    if name == MATRIX:
        return {method: partial(_selected, run) for method, run in matrix.methods().items()}
    problem = TABLES[name]()
    runs: dict[str, Any] = {method: partial(scores, problem, method) for method in METHODS}
    truth = problem.truth
    if truth is not None:
        runs["what noise leaves"] = lambda: {"within": [_within(truth[test], problem, test) for _, test in problem.folds]}
    return runs


def _path(name: str) -> Path:
    return RECORDS / f"{name.lower().replace(' ', '-')}.json"


def read(name: str) -> dict[str, dict[str, list[float]]]:
    """Return the record of a table: the scores of every method, fold by fold."""
    found: dict[str, dict[str, list[float]]] = json.loads(_path(name).read_text())
    return found


def blocks() -> dict[str, str]:
    """Return every table of the page by name."""
    within = [_head(["table", "method", "Pearson within groups", "MAE"])]
    for name in TABLES:
        within += _lines(name, ("within", "mae"))
    matrix = [_head(["table", "method", "Pearson per drug", "Pearson per cell line", "MAE"])]
    return {"within groups": "\n".join(within), "rows and columns": "\n".join(matrix + _lines(MATRIX, ("column", "row", "mae")))}


def _head(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}"


def _lines(name: str, fields: tuple[str, ...]) -> list[str]:
    found = read(name)
    return [
        f"| {name} | {method} | " + " | ".join(_cell(values.get(field)) for field in fields) + " |"
        for method, values in found.items()
    ]


def _cell(values: list[float] | None) -> str:
    return "" if values is None else f"{np.mean(values):.3f} ({np.std(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join((*TABLES, MATRIX)))
    parser.add_argument("--page", action="store_true", help="write the tables of docs/pairs.md from the records")
    arguments = parser.parse_args()
    if arguments.page:
        write_tables(PAGE, blocks())
        return
    for name in arguments.tables or (*TABLES, MATRIX):
        record(name)


if __name__ == "__main__":
    main()
