"""Tables and the figure of docs/strength.md, from the records alone: ``python -m benchmarks.against.page``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks import scale, single, strength
from benchmarks.against import timing
from benchmarks.against.__main__ import FOLDER
from benchmarks.against.tables import DEVELOPMENT, HELD_OUT
from benchmarks.pages import write_tables
from benchmarks.recording import read as read_record
from gar.registry import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "strength.md"
FIGURE = PAGE.parent / "images" / "strength.png"
TITLES = {
    "gar": "GARRegressorCV",
    "mae": "the same with MAE",
    "mse": "the same with MSE",
    "realmlp": "RealMLP",
    "tabm": "TabM",
    "catboost": "CatBoost",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "ridge": "ridge",
}
SIBLINGS = ("mae", "mse")
"""Methods that differ from GARRegressorCV in the loss alone."""
RANKED = ("spearman", "pearson", "mae", "rmse")
ALL = (*HELD_OUT, *DEVELOPMENT)
PARTS = {"held-out tables": HELD_OUT, "development tables": DEVELOPMENT}


def read(method: str, name: str) -> dict[str, Any] | None:
    return read_record(FOLDER, name, method)


def complete(methods: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the tables of which all of these methods have a record."""
    return [name for name in names if all(read(method, name) for method in methods)]


def methods_with_records(names: Sequence[str]) -> list[str]:
    """Return the methods that were run on all of these tables."""
    return [method for method in TITLES if all(read(method, name) for name in names)]


def values(metric: str, methods: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Return one metric ``(tables, methods)``."""
    return np.array([[record[metric] for method in methods if (record := read(method, name))] for name in names])


def mean_ranks(metric: str, methods: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Return the mean rank of each method over the tables; 1 is best, and equal scores share their ranks."""
    scores = METRICS[metric].sign * values(metric, methods, names)
    return np.asarray(np.mean([rankdata(-row) for row in scores], 0))


def rank_table(names: Sequence[str], methods: Sequence[str] | None = None) -> str:
    """Return mean ranks by metric, and the median seconds of one thread."""
    methods = methods or methods_with_records(names)
    lines = ["| | " + " | ".join(TITLES[method] for method in methods) + " |", "|---|" + "---|" * len(methods)]
    for metric in RANKED:
        ranks = mean_ranks(metric, methods, names)
        cells = [f"**{rank:.2f}**" if rank == ranks.min() else f"{rank:.2f}" for rank in ranks]
        lines.append(f"| {METRICS[metric].title} | " + " | ".join(cells) + " |")
    seconds = np.median(values("seconds", methods, names), 0)
    lines.append("| seconds, median | " + " | ".join(f"{value:.1f}" for value in seconds) + " |")
    return "\n".join(lines)


def error_table(names: Sequence[str]) -> str:
    """Return the RMSE of every method on every table, as a multiple of the best one."""
    methods = methods_with_records(names)
    errors = values("rmse", methods, names)
    best = errors.min(1)
    lines = ["| table | rows | best RMSE | " + " | ".join(TITLES[method] for method in methods) + " |"]
    lines.append("|---|---|---|" + "---|" * len(methods))
    for name, row, least in zip(names, errors, best, strict=True):
        cells = [f"**{value / least:.2f}**" if value == least else f"{value / least:.2f}" for value in row]
        record = read("gar", name)
        rows = record["rows"] if record else 0
        lines.append(f"| {name} | {rows} | {least:.4g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def worst_ratio(method: str = "gar", rival: str = "lightgbm") -> tuple[float, str]:
    """Return the largest RMSE of a method as a multiple of a rival's, and the table where that is."""
    names = complete((method, rival), ALL)
    ratios = values("rmse", [method, rival], names)
    found = ratios[:, 0] / ratios[:, 1]
    return float(found.max()), names[int(found.argmax())]


def sentences() -> str:
    """Return what the records say in words."""
    ratio, name = worst_ratio()
    tables = len(complete(("gar", "lightgbm"), ALL))
    slow = complete(("gar", "tabm"), ALL)
    by_tabm = [f"{tabm / gar:.2f} ({name})" for name, (gar, tabm) in zip(slow, values("rmse", ("gar", "tabm"), slow), strict=True)]
    return (
        f"Over all {tables} tables, the RMSE of `GARRegressorCV` is at most {ratio:.2f} times LightGBM's ({name}). Taking turns on "
        f"{len(timing.TABLES)} tables (`python -m benchmarks.against.timing`), it needs {timing.ratio():.2f} times the time of "
        "RealMLP (median of the ratios). TabM takes minutes a fit and was run on the smallest tables only: its RMSE is "
        f"{' and '.join(by_tabm)} times that of `GARRegressorCV`."
    )


def draw() -> None:
    """Draw mean ranks on the held-out tables, and errors against time."""
    import matplotlib.pyplot as plt

    methods = methods_with_records(HELD_OUT)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    ranks = np.stack([mean_ranks(metric, methods, HELD_OUT) for metric in RANKED])
    colours = ["#b5361c" if method == "gar" else "#d98c7c" if method in SIBLINGS else "#7a8b99" for method in methods]
    order = np.argsort(-ranks.mean(0))
    left.barh([TITLES[methods[index]] for index in order], ranks.mean(0)[order], color=[colours[index] for index in order])
    left.set(xlabel=f"mean rank over four metrics and {len(HELD_OUT)} held-out tables (1 is best)", xlim=(0, None))
    errors, seconds = values("rmse", methods, HELD_OUT), np.median(values("seconds", methods, HELD_OUT), 0)
    relative = np.exp(np.log(errors / errors.min(1, keepdims=True)).mean(0))
    shown = [index for index, method in enumerate(methods) if method != "ridge"]
    right.scatter(seconds[shown], relative[shown], color=[colours[index] for index in shown], s=60, zorder=2)
    for index in shown:
        right.annotate(
            TITLES[methods[index]],
            (seconds[index], relative[index]),
            xytext=(6, -14 if methods[index] == "gar" else 5),
            textcoords="offset points",
            fontsize=9,
        )
    right.set(xscale="log", xlabel="seconds of one thread, median", ylabel="RMSE, as a multiple of the best (geometric mean)")
    right.margins(0.18)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, dpi=110)
    plt.close(figure)


def write() -> None:
    """Render tables and figure anew."""
    write_tables(PAGE, blocks())
    draw()


def blocks() -> dict[str, str]:
    """Return every table of the page by name."""
    found = {f"ranks on {part}": rank_table(names) for part, names in PARTS.items()}
    found["ranks among rivals"] = rank_table(
        HELD_OUT, [method for method in methods_with_records(HELD_OUT) if method not in SIBLINGS]
    )
    found |= {"errors on held-out tables": error_table(HELD_OUT), "sentences": sentences()}
    return found | {"scale": scale.table(), "single": single.table(single.read_record()), "paper": strength.table()}


if __name__ == "__main__":
    write()
