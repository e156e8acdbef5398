"""A grid of models over folds: split into chunks, trained by several processes, recorded on disk, and judged by validation rows.

:func:`search` trains and remembers, :func:`select` chooses, and :func:`computing_on` says on which machines.
"""

from gar.search.engines import computing_on
from gar.search.records import RecordError, RecordWarning
from gar.search.running import search
from gar.search.selection import Selection, select

__all__ = ["RecordError", "RecordWarning", "Selection", "computing_on", "search", "select"]
