"""Losses compared on a table of yours: the same splits, grids and networks for all, judged on rows that none has seen.

:func:`compare_table` does it for one table, :func:`compare_curve` for one of the paper's curves.
"""

from gar.compare.curves import CURVES, compare_curve
from gar.compare.options import Options
from gar.compare.running import Run
from gar.compare.session import DEFAULT, Report, compare_and_report, problem_named
from gar.compare.source import Source, source_of_data_set, source_of_file, source_of_frame
from gar.compare.tables import Compared, NothingFinishedError, compare_table

__all__ = [
    "CURVES",
    "DEFAULT",
    "Compared",
    "NothingFinishedError",
    "Options",
    "Report",
    "Run",
    "Source",
    "compare_and_report",
    "compare_curve",
    "compare_table",
    "problem_named",
    "source_of_data_set",
    "source_of_file",
    "source_of_frame",
]
