"""Tables as they come, as numbers: frames of pandas or polars with text, categories, booleans, dates and gaps.

One encoder serves the estimators and ``gar compare``. It is plain data, which a saved model keeps.
"""

from gar.encoding.categories import CategoricalColumn, TargetColumn
from gar.encoding.cells import Columns, columns_of, is_frame
from gar.encoding.encoder import EncodedFolds, Encoder, encode_folds
from gar.encoding.numbers import DateColumn, NumericColumn

__all__ = [
    "CategoricalColumn",
    "Columns",
    "DateColumn",
    "EncodedFolds",
    "Encoder",
    "NumericColumn",
    "TargetColumn",
    "columns_of",
    "encode_folds",
    "is_frame",
]
