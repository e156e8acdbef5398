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
    order = np.arange(len(columns[0]))
    is_new = order == 0
    for column in columns:  # each sorts those rows only that are equal in all columns before
        tied = ~is_new
        tied[:-1] |= ~is_new[1:]
        rows = order[tied]
        if len(rows) == 0:
            break
        order[tied] = rows[np.lexsort([column[rows], np.cumsum(is_new)[tied]])]
        equal = np.flatnonzero(~is_new)
        before, after = column[order[equal - 1]], column[order[equal]]
        is_new[equal] = (before != after) & ~(np.isnan(before) & np.isnan(after))
    return order, is_new
