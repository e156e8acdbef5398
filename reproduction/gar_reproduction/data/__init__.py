"""The paper's data sets: what they are, how to get them, and how they are split."""

from gar_reproduction.data.catalog import DataSet, describe, names
from gar_reproduction.data.fetching import fetch
from gar_reproduction.data.home import available, data_home, path
from gar_reproduction.data.loading import load
from gar_reproduction.data.splits import authors_split, group_split, half_split, has_authors_split, paper_order, paper_split
from gar_reproduction.data.table import Table

__all__ = [
    "DataSet",
    "Table",
    "authors_split",
    "available",
    "data_home",
    "describe",
    "fetch",
    "group_split",
    "half_split",
    "has_authors_split",
    "load",
    "names",
    "paper_order",
    "paper_split",
    "path",
]
