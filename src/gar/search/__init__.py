"""A grid of models over folds: split into chunks, trained by several processes, recorded on disk, and judged by validation rows.

:func:`search` trains and remembers, :func:`select` chooses, and :func:`parallel_backend` says on which machines.
"""

from gar.search.backends import parallel_backend
from gar.search.context import RunContext
from gar.search.grid import search
from gar.search.records import RecordError, RecordWarning
from gar.search.retraining import retrain
from gar.search.selection import Selection, select

__all__ = ["RecordError", "RecordWarning", "RunContext", "Selection", "parallel_backend", "retrain", "search", "select"]
