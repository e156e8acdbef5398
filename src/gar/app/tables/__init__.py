"""Your own tables: reading files of any format, splitting their rows, and encoding their columns as numbers."""

from gar.app.tables.encoding import EncodedFolds, Encoder, encode_folds, labels_of
from gar.app.tables.reading import read_table
from gar.app.tables.splits import Parts, group_folds, shuffled_folds

__all__ = ["EncodedFolds", "Encoder", "Parts", "encode_folds", "group_folds", "labels_of", "read_table", "shuffled_folds"]
