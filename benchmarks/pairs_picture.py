"""Draw docs/images/pairs.png: which values of a batch are compared with each other.

python -m benchmarks.pairs_picture
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "pairs.png"
ROWS, TARGETS = 6, 3
GROUPS = ((0, 3), (4, 5))
BLUE, ORANGE, INK, PAPER = "#2b6cb0", "#d9480f", "#24292f", "#ffffff"


def panel(axes: Axes, title: str, code: str, columns: tuple[tuple[int, int], ...], *, rows: bool) -> None:
    """Draw values as dots, and a line through those that are compared: spans of rows in every column, and whole rows."""
    line: dict[str, Any] = {"solid_capstyle": "round", "linewidth": 7, "alpha": 0.55}
    for column in range(TARGETS):
        for number, (first, last) in enumerate(columns):
            axes.plot([column, column], [first, last], color=(BLUE, ORANGE)[number], **line)
    for row in range(ROWS if rows else 0):
        axes.plot([0, TARGETS - 1], [row, row], color=ORANGE, **line)
    x, y = np.meshgrid(np.arange(TARGETS), np.arange(ROWS))
    axes.scatter(x, y, s=70, color=PAPER, edgecolor=INK, linewidth=1.4, zorder=3)
    axes.set(xlim=(-0.9, TARGETS - 0.1), ylim=(ROWS - 0.4, -0.6), aspect="equal")
    axes.set_title(title, color=INK, fontsize=11, fontweight="bold", pad=8)
    axes.text((TARGETS - 1) / 2, ROWS - 0.1, code, ha="center", va="top", family="monospace", fontsize=8.5, color=INK)
    axes.axis("off")


def draw() -> None:
    whole = ((0, ROWS - 1),)
    figure, axes = plt.subplots(1, 4, figsize=(9.5, 3.3), facecolor=PAPER)
    panel(axes[0], "batch", "GARLoss()", whole, rows=False)
    panel(axes[1], "groups", "groups=days", GROUPS, rows=False)
    panel(axes[2], "targets", 'pairs="targets"', (), rows=True)
    panel(axes[3], "both", 'pairs="both"', whole, rows=True)
    axes[0].text(-0.75, (ROWS - 1) / 2, "rows of a batch", rotation=90, ha="center", va="center", fontsize=9, color=INK)
    axes[0].text((TARGETS - 1) / 2, -0.55, "targets", ha="center", va="center", fontsize=9, color=INK)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.86, bottom=0.1, wspace=0.05)
    figure.savefig(PICTURE, dpi=150, facecolor=PAPER)


if __name__ == "__main__":
    draw()
