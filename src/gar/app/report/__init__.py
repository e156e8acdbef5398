"""What a comparison found, shown: a table in the terminal, figures, and one self-contained page.

Nothing is trained here: :class:`Results` comes in, tables and pictures go out. What draws and prints is imported when it is used.
"""

from typing import TYPE_CHECKING, Any

from gar.app.report.results import Choice, Curve, Method, ParameterScore, Predictions, Problem, Results, Truth

if TYPE_CHECKING:
    from gar.app.report.page import write_report as write_report
    from gar.app.report.terminal import print_results as print_results

__all__ = [
    "Choice",
    "Curve",
    "Method",
    "ParameterScore",
    "Predictions",
    "Problem",
    "Results",
    "Truth",
    "print_results",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "write_report":
        from gar.app.report.page import write_report

        return write_report
    if name == "print_results":
        from gar.app.report.terminal import print_results

        return print_results
    raise AttributeError(f"module 'gar.app.report' has no attribute {name!r}")
