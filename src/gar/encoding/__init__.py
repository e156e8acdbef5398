"""Tables as they come, as numbers: frames of pandas or polars with text, categories, booleans, dates and gaps.

One encoder serves the estimators and ``gar compare``. It is plain data, which a saved model keeps.
"""

from gar.encoding.categories import CategoricalColumn, TargetColumn
from gar.encoding.encoder import Encoder
from gar.encoding.folds import EncodedFolds, encode_folds
from gar.encoding.frames import Columns, columns_of, is_frame
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
