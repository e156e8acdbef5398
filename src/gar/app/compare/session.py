"""A whole comparison: problems one after another, then the model and the report in one folder."""

import datetime
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gar import __version__
from gar.app.compare.comparison import Compared, NothingFinishedError, compare_table
from gar.app.compare.curves import CURVES, compare_curve
from gar.app.compare.options import Options
from gar.app.compare.source import DIABETES, Source, source_of_data_set
from gar.app.models import remove_model
from gar.app.report.results import Results
from gar.search import RunContext, parallel_backend

DEFAULT = (DIABETES, *CURVES)
"""Problems of a comparison without a table: one that scikit-learn brings along, and the paper's curves. Nothing is downloaded."""


class Report(NamedTuple):
    """Results of a comparison, and where they were written."""

    results: Results
    page: Path
    model: Path | None
    """The folder of the saved model; None if no problem was a table."""
    is_late: bool
    """True if the time limit was reached before everything was done."""


def problem_named(name: str, *, group: str | None = None) -> Source | str:
    """Return a data set as a table, or the name of a curve."""
    return name if name in CURVES and group is None else source_of_data_set(name, group=group)


def compare_and_report(
    problems: Sequence[Source | str], options: Options, context: RunContext, *, out: Path, command: str
) -> Report:
    """Compare on all problems and write everything into a folder.

    Args:
        problems: tables, and names of curves.
        options: what to train.
        context: how to compute; its records are those of ``out``. What is not finished by its deadline is left out.
        out: the folder of ``report.html``, ``results.json``, figures, ``model``, and ``records``, from which the same comparison
            continues. A model of an earlier comparison is replaced, or removed if this one has none.
        command: the command line, for the report.
    """
    with parallel_backend(context.backend, address=context.address, workers=context.workers):
        found, is_late = _compare_all(problems, options, replace(context, records=out / "records"))
    model = next((one.model for one in found if one.model is not None), None)
    if model is None:
        remove_model(out / "model")  # one of an earlier comparison would pass for that of this report
    else:
        model.save(out / "model")
    results = Results(
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gar=__version__,
        problems=[one.problem for one in found],
    )
    from gar.app.report import write_report  # draws with matplotlib, which takes a second to import

    return Report(results, write_report(results, out), None if model is None else out / "model", is_late)


def _compare_all(problems: Sequence[Source | str], options: Options, context: RunContext) -> tuple[list[Compared], bool]:
    """Return the results of problems on which anything was finished, and whether the time limit was reached."""
    found: list[Compared] = []
    context.start_workers()
    for problem in problems:
        try:
            if isinstance(problem, str):
                found.append(compare_curve(problem, options, context))
            else:
                found.append(compare_table(problem, options, context))
        except NothingFinishedError:
            if not context.is_late() or not found:
                raise
    return found, any(one.is_late for one in found) or len(found) < len(problems)
