"""Tables of the user's own: read files of any format, and split rows into folds."""

from gar.app.tables.columns import target_values
from gar.app.tables.reading import read_table, read_with_notes
from gar.app.tables.splits import Parts, group_folds, ordered_folds, resampled_folds, shuffled_folds

__all__ = [
    "Parts",
    "group_folds",
    "ordered_folds",
    "read_table",
    "read_with_notes",
    "resampled_folds",
    "shuffled_folds",
    "target_values",
]
