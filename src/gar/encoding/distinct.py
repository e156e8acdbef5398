"""Rows that are equal, where NaN equals NaN."""

from collections.abc import Sequence

import numpy as np


def sorted_distinct(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the order that sorts rows by their columns, NaN last, and which of the sorted rows differ from the one before.

    Example:
        >>> order, is_new = sorted_distinct([np.array([2.0, np.nan, 1.0, np.nan])])
        >>> order.tolist(), is_new.tolist()
        ([2, 0, 1, 3], [True, True, True, False])
    """
    order = np.lexsort(columns[::-1])
    is_new = np.arange(len(order)) == 0
    for column in columns:
        before, after = column[order[:-1]], column[order[1:]]
        is_new[1:] |= (before != after) & ~(np.isnan(before) & np.isnan(after))
    return order, is_new
