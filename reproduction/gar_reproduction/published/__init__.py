"""The numbers that the paper published, one CSV file for each of its tables, as they are printed there.

Where the paper has ``---`` because a method does not apply, the row is missing.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from gar.errors import InputError

TABLES: tuple[str, ...] = (
    *("table1", "table1-gains", "standardized", "standardized-gains", "ablation", "ablation-ranks"),
    *("runtime", "selected-alpha", "selected-alpha-means", "batch-size", "datasets"),
)


class Score(NamedTuple):
    """A mean and the standard deviation in parentheses behind it."""

    mean: float
    sd: float


def with_sd(mean: float, sd: float) -> str:
    """Return a score as the paper writes it.

    Example:
        >>> with_sd(4.60312, 0.0751)
        '4.603(0.075)'
    """
    return f"{mean:.3f}({sd:.3f})"


@cache
def read(table: str) -> tuple[dict[str, str], ...]:
    """Return all rows of a table, by the names of its columns.

    Example:
        >>> read("datasets")[0]
        {'dataset': 'concrete', 'instances': '1030', 'features': '8', 'targets': '1'}
    """
    if table not in TABLES:
        raise InputError(f"{table!r} is no table of the paper; there are {', '.join(TABLES)}")
    text = resources.files(__name__).joinpath(f"{table}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def scores(table: str) -> Mapping[tuple[str, str, str], Score]:
    """Return the scores of ``table1``, ``standardized``, ``ablation`` or ``batch-size`` by task, method and metric.

    Example:
        >>> scores("table1")["concrete", "gar", "mae"]
        Score(mean=4.603, sd=0.075)
    """
    return {(row["task"], row["method"], row["metric"]): _score(row) for row in read(table)}


@cache
def running_times() -> Mapping[tuple[str, str, str], Score]:
    """Return seconds per epoch by task, method and kind: ``all`` or ``loss``."""
    return {(row["task"], row["method"], row["kind"]): _score(row) for row in read("runtime")}


@cache
def gains(table: str) -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return GAR's gains in percent and their p-values by task and metric, of ``table1`` or ``standardized``.

    Example:
        >>> gains("table1")["concrete", "mae"]["gain_over_mae"]
        7.48
    """
    names = ("gain_over_mae", "gain_over_best", "p_against_mae", "p_against_best")
    return {(row["task"], row["metric"]): {name: float(row[name]) for name in names} for row in read(f"{table}-gains")}


@cache
def ablation_ranks() -> Mapping[str, float]:
    """Return the mean rank of every variant of GAR."""
    return {row["method"]: float(row["rank"]) for row in read("ablation-ranks")}


@cache
def selected_alphas() -> Mapping[tuple[str, str], tuple[float, ...]]:
    """Return the alpha of each fold by task and metric."""
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    for row in read("selected-alpha"):
        key = (row["task"], row["metric"])
        found[key] = (*found.get(key, ()), float(row["alpha"]))
    return found


def _score(row: Mapping[str, str]) -> Score:
    return Score(float(row["mean"]), float(row["sd"]))
