"""A table of numbers to learn from."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Features and labels with their names, and what a reader of results should know.

    Args:
        name: short, as in commands.
        title: for people.
        x: features ``(rows, features)``, float64.
        y: labels ``(rows, targets)``, float64; NaN where one is missing.
        feature_names: one for each column of ``x``.
        target_names: one for each column of ``y``.
        groups: rows with equal values belong together (recordings of one person), ``(rows,)``; None where there are none.
        notes: what was done to the table, and its quirks.
        source: where it came from.
    """

    name: str
    title: str
    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    groups: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        shapes = (len(self.x), len(self.feature_names)), (len(self.x), len(self.target_names))
        if (self.x.shape, self.y.shape) != shapes:
            raise InputError(f"{self.name}: x has shape {self.x.shape}, y {self.y.shape}; expected {shapes[0]} and {shapes[1]}")
        if self.groups is not None and self.groups.shape != (len(self.x),):
            raise InputError(f"{self.name}: groups has shape {self.groups.shape}; expected one value per row: ({len(self.x)},)")

    def __repr__(self) -> str:
        return f"Table({self.name!r}, rows={len(self.x)}, features={self.x.shape[1]}, targets={self.y.shape[1]})"

    def frame(self) -> "pd.DataFrame":
        """Features and labels side by side."""
        import pandas as pd

        return pd.DataFrame(np.hstack([self.x, self.y]), columns=[*self.feature_names, *self.target_names])
