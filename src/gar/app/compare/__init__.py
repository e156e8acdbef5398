"""Compare losses on a table of yours: the same splits, grids and networks for all, scored on test rows that none has seen.

:func:`compare_table` does it for one table, :func:`compare_curve` for one of the paper's curves, and :func:`compare_and_report`
for several problems with a report.
"""

from gar.app.compare.comparison import DEFAULT, Report, compare_and_report, compare_table, plan_problem, problem_named
from gar.app.compare.curves import CURVES, compare_curve
from gar.app.compare.families import Compared, NothingFinishedError
from gar.app.compare.options import Options
from gar.app.compare.source import Source, data_set_names, source_of_data_set, source_of_file, source_of_frame

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
    "data_set_names",
    "plan_problem",
    "problem_named",
    "source_of_data_set",
    "source_of_file",
    "source_of_frame",
]
