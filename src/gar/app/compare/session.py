"""A whole comparison: problems one after another, then the model and the report in one folder."""

import datetime
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gar import __version__
from gar.app.compare.curve_points import CURVES
from gar.app.compare.curves import compare_curve
from gar.app.compare.options import Options
from gar.app.compare.source import Source, source_of_data_set
from gar.app.compare.tables import Compared, NothingFinishedError, compare_table
from gar.app.models.folder import remove_model
from gar.app.report.results import Results
from gar.search import RunContext, parallel_backend

DEFAULT = ("diabetes", *CURVES)
"""What is compared on without a table: one that scikit-learn brings along, and the paper's curves. Nothing is downloaded."""


class Report(NamedTuple):
    """What a comparison leaves behind."""

    results: Results
    page: Path
    model: Path | None
    """The folder of the saved model; None if no problem was a table."""
    is_late: bool
    """Whether time was up before everything was done."""


def problem_named(name: str) -> Source | str:
    """Return a data set as a table, or the name of a curve."""
    return name if name in CURVES else source_of_data_set(name)


def compare_and_report(
    problems: Sequence[Source | str],
    options: Options,
    *,
    out: Path,
    command: str,
    workers: int = -1,
    backend: str | None = None,
    address: str | None = None,
    time_limit: float | None = None,
    progress: bool = False,
) -> Report:
    """Compare on all problems and write everything into a folder.

    Args:
        problems: tables, and names of curves.
        options: what to try.
        out: the folder of ``report.html``, ``results.json``, figures, ``model``, and ``records``, from which the same comparison
            goes on. A model of an earlier comparison is replaced, or removed if there is none now.
        command: what the user typed, for the report.
        workers: processes; -1 is one per core.
        backend: who computes, as in :func:`gar.search.parallel_backend`.
        address: of a running cluster.
        time_limit: minutes; what is not finished by then is left out.
        progress: show a line on stderr.
    """
    from gar.app.report.page import write_report

    deadline = None if time_limit is None else time.monotonic() + 60.0 * time_limit
    run = RunContext(records=out / "records", workers=workers, progress=progress, deadline=deadline)
    with parallel_backend(backend, address=address, workers=workers):
        found, late = _compare_all(problems, options, run)
    results = Results(
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gar=__version__,
        problems=[one.problem for one in found],
    )
    models = [one.model for one in found if one.model is not None]
    if models:
        models[0].save(out / "model")
    else:
        remove_model(out / "model")  # that of an earlier comparison would pass for one of this report
    return Report(results, write_report(results, out), out / "model" if models else None, late)


def _compare_all(problems: Sequence[Source | str], options: Options, run: RunContext) -> tuple[list[Compared], bool]:
    """Problems of which anything was finished, and whether time was up for the rest."""
    found: list[Compared] = []
    run.start_workers()
    for problem in problems:
        try:
            compare = compare_curve(problem, options, run) if isinstance(problem, str) else compare_table(problem, options, run)
        except NothingFinishedError:
            if not run.is_late() or not found:
                raise
            continue
        found.append(compare)
    return found, any(one.is_late for one in found) or len(found) < len(problems)
