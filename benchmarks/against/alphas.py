"""A single alpha against a grid of three, a table of docs/defaults.md from records: ``python -m benchmarks.against.alphas``."""

from pathlib import Path

import numpy as np

from benchmarks.against.__main__ import FOLDER
from benchmarks.against.page import PARTS, RANKED
from benchmarks.pages import write_tables
from benchmarks.recording import read
from gar.registry import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "defaults.md"
GRID = "gar_grid"
METHODS = {"alpha_0.5": "0.5", "alpha_1": "1", "gar": "10, the default", "alpha_inf": "infinity"}


def missing(metric: str, value: float) -> float:
    """Return a metric as an error to be made small: of a correlation, what is missing to one."""
    return 1.0 - value if METRICS[metric].larger_is_better else value


def alpha_table() -> str:
    """Return errors with a single alpha as multiples of those with the grid, if all tables of a part have both."""
    titles = [f"1 - {METRICS[name].title}" if METRICS[name].larger_is_better else METRICS[name].title for name in RANKED]
    lines = [
        "| " + " | ".join(["alpha", "tables", *titles, "RMSE of the worst table", "time"]) + " |",
        "|---" * (len(RANKED) + 4) + "|",
    ]
    for method, title in METHODS.items():
        for part, names in PARTS.items():
            pairs = [(read(FOLDER, name, method), read(FOLDER, name, GRID)) for name in names]
            both = [(one, grid) for one, grid in pairs if one and grid]
            if len(both) == len(names):
                ratios = [[missing(name, one[name]) / missing(name, grid[name]) for one, grid in both] for name in RANKED]
                cells = [f"{np.exp(np.mean(np.log(ratio))):.3f}" for ratio in ratios]
                seconds = np.median([one["seconds"] / grid["seconds"] for one, grid in both])
                cells += [f"{max(ratios[RANKED.index('rmse')]):.2f}", f"{seconds:.2f}"]
                lines.append("| " + " | ".join([title, part, *cells]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    write_tables(PAGE, {"alphas": alpha_table()})
