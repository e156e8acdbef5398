"""Reports of a comparison: a table in the terminal, figures, and one self-contained page.

Nothing is trained here: :class:`Results` go in, tables and figures come out. Libraries for drawing and printing are imported on
first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gar.app.report.results import Choice, Curve, Method, ParameterScore, Predictions, Problem, Results, Truth

if TYPE_CHECKING:
    from gar.app.report.page import write_report as write_report
    from gar.app.report.terminal import print_results as print_results

_MODULES = {"print_results": "terminal", "write_report": "page"}
__all__ = ["Choice", "Curve", "Method", "ParameterScore", "Predictions", "Problem", "Results", "Truth", *_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
