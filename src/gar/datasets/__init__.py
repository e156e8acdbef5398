"""Tables to learn from: the paper's data sets and your own, their download, their splits, and how they become numbers.

Names are imported where they are first used, so that listing data sets does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gar.datasets.catalog import DataSet as DataSet
    from gar.datasets.catalog import describe as describe
    from gar.datasets.catalog import names as names
    from gar.datasets.encoding import EncodedFolds as EncodedFolds
    from gar.datasets.encoding import Encoder as Encoder
    from gar.datasets.encoding import encode_folds as encode_folds
    from gar.datasets.encoding import labels_of as labels_of
    from gar.datasets.fetching import fetch as fetch
    from gar.datasets.home import available as available
    from gar.datasets.home import data_home as data_home
    from gar.datasets.home import path as path
    from gar.datasets.loading import load as load
    from gar.datasets.reading import read_table as read_table
    from gar.datasets.splits import authors_split as authors_split
    from gar.datasets.splits import group_folds as group_folds
    from gar.datasets.splits import group_split as group_split
    from gar.datasets.splits import half_split as half_split
    from gar.datasets.splits import has_authors_split as has_authors_split
    from gar.datasets.splits import paper_folds as paper_folds
    from gar.datasets.splits import paper_order as paper_order
    from gar.datasets.splits import paper_split as paper_split
    from gar.datasets.table import Table as Table

_HOME = {
    "DataSet": "catalog",
    "describe": "catalog",
    "names": "catalog",
    "EncodedFolds": "encoding",
    "Encoder": "encoding",
    "encode_folds": "encoding",
    "labels_of": "encoding",
    "fetch": "fetching",
    "available": "home",
    "data_home": "home",
    "path": "home",
    "load": "loading",
    "read_table": "reading",
    "authors_split": "splits",
    "group_folds": "splits",
    "group_split": "splits",
    "half_split": "splits",
    "has_authors_split": "splits",
    "paper_folds": "splits",
    "paper_order": "splits",
    "paper_split": "splits",
    "Table": "table",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"gar.datasets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'gar.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
