"""Losses compared on a table of yours: the same splits, grids and networks for all, judged on rows that none has seen.

:func:`compare_table` does it for one table, :func:`compare_curve` for one of the paper's curves.
"""

from gar.app.compare.curve_points import CURVES
from gar.app.compare.curves import compare_curve
from gar.app.compare.options import Options
from gar.app.compare.session import DEFAULT, Report, compare_and_report, problem_named
from gar.app.compare.source import Source, source_of_data_set, source_of_file, source_of_frame
from gar.app.compare.tables import Compared, NothingFinishedError, compare_table

__all__ = [
    "CURVES",
    "DEFAULT",
    "Compared",
    "NothingFinishedError",
    "Options",
    "Report",
    "Source",
    "compare_and_report",
    "compare_curve",
    "compare_table",
    "problem_named",
    "source_of_data_set",
    "source_of_file",
    "source_of_frame",
]
