"""A grid of models over folds: split into chunks, trained by several processes, recorded on disk, selected by validation rows.

:func:`search` trains and records, :func:`select` chooses, and a :class:`RunContext` says where and how to compute.
"""

from gar.search.backends import parallel_backend
from gar.search.context import RunContext, one_thread
from gar.search.grid import retrain, search
from gar.search.records import RecordError, RecordWarning
from gar.search.selection import Selection, select

__all__ = [
    "RecordError",
    "RecordWarning",
    "RunContext",
    "Selection",
    "one_thread",
    "parallel_backend",
    "retrain",
    "search",
    "select",
]
