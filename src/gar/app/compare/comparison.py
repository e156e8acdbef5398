"""A whole comparison: all chosen losses and kinds of models on every problem, then the best model and the report in one folder.

On a table: plan, train every loss on every fold, score the test rows, and keep the best by validation rows.
"""

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gar import __version__
from gar.app.compare.checks import warnings_on
from gar.app.compare.curves import CURVES, compare_curve, plan_curve
from gar.app.compare.families import (
    Compared,
    Family,
    Finished,
    LeftOut,
    NothingFinishedError,
    check_pairs,
    load_families,
    losses_of,
)
from gar.app.compare.options import Options
from gar.app.compare.plan import AFFORDABLE, Plan, make_plan, report_seconds
from gar.app.compare.references import reference_methods
from gar.app.compare.source import DIABETES, Prepared, Source, prepare, source_of_data_set
from gar.app.models import replacing_output
from gar.app.report.results import Method, Problem, Results
from gar.errors import InputError
from gar.registry import LOSSES, PAPER_LOSSES
from gar.search import RunContext, parallel_backend

DEFAULT = (DIABETES, *CURVES)
"""Problems of a comparison without a table: one that scikit-learn brings along, and the paper's curves. Nothing is downloaded."""


_RESERVE_FACTOR, _SAVING_SECONDS = 1.5, 0.3
"""Time that is kept for a report, in units of the estimate, and for saving the model."""

Announce = Callable[[Sequence[str]], None]
"""Shows the lines of a plan."""


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
    if name in CURVES and group is not None:
        raise InputError(f"group={group!r} is not known; {name} has no groups")
    return name if name in CURVES else source_of_data_set(name, group=group)


def compare_and_report(
    problems: Sequence[Source | str],
    options: Options,
    context: RunContext,
    *,
    out: Path,
    command: str,
    affordable: float = AFFORDABLE,
    announce: Announce | None = None,
) -> Report:
    """Compare on all problems and write everything into a folder.

    Args:
        problems: tables, and names of curves.
        options: what to train.
        context: how to compute; its records are those of ``out``. What is not finished by its deadline is left out.
        out: the folder of ``report.html``, ``results.json``, figures, ``model``, and ``records``, from which the same comparison
            continues. A model of an earlier comparison is replaced, or removed if this one has none. Report and model are always
            those of one comparison, also when several write to one folder or one is killed.
        command: the command line, for the report.
        affordable: seconds on a table up to which losses are added, if none are named.
        announce: called with the plan of each problem, in words, before it is trained; None makes no estimate without need.
    """
    with parallel_backend(context.backend, address=context.address, workers=context.workers):
        context = replace(context, records=out / "records", backend=None, address=None)  # the open backend, once for all searches
        context.start_workers()
        found, is_late = _compare_all(problems, options, context, affordable, announce)
    results = Results(
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gar=__version__,
        problems=[one.problem for one in found],
        machine=_machine(),
    )
    from gar.app.report.page import write_report  # draws with matplotlib, which takes a second to import

    model = next((one.model for one in found if one.model is not None), None)
    with replacing_output(out) as folder:
        if model is not None:
            model.save(folder / "model")
        page = write_report(results, folder)
    return Report(results, out / page.name, None if model is None else out / "model", is_late)


def _machine() -> dict[str, str]:
    """Return what computes, for the reader of results."""
    import torch

    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return {"system": platform.system(), "processor": platform.machine(), "cores": str(os.cpu_count()), **versions}


def _compare_all(
    problems: Sequence[Source | str], options: Options, context: RunContext, affordable: float, announce: Announce | None
) -> tuple[list[Compared], bool]:
    """Return the results of problems on which anything was finished, and whether the time limit was reached."""
    found: list[Compared] = []
    for problem in problems:
        try:
            if isinstance(problem, str):
                found.append(compare_curve(problem, options, context, announce=announce))
            else:
                found.append(compare_table(problem, options, context, affordable=affordable, announce=announce))
        except NothingFinishedError:
            if not context.is_late() or not found:
                raise
    return found, any(one.is_late for one in found) or len(found) < len(problems)


def compare_table(
    source: Source,
    options: Options,
    context: RunContext,
    *,
    affordable: float = AFFORDABLE,
    announce: Announce | None = None,
) -> Compared:
    """Train every chosen loss on every fold, score the test rows, and keep the best method by validation rows.

    Args:
        source: the table.
        options: what to train.
        context: how to compute.
        affordable: seconds up to which losses are added, if none are named.
        announce: called with the plan in words; None makes no estimate without need.

    Example:
        >>> from gar.app.compare import source_of_data_set
        >>> quick = Options(losses=("mae", "gar"), epochs=2, learning_rates=(0.01,), weight_decays=(0.001,))
        >>> found = compare_table(source_of_data_set("diabetes"), quick, RunContext(workers=1))
        >>> [method.name for method in found.problem.methods], found.problem.test_rows
        (['mae', 'gar'], 88)
    """
    families, prepared = load_families(options), prepare(source, options)
    check_pairs(prepared, families, options)
    warnings, references = warnings_on(prepared), reference_methods(prepared)
    is_limited, is_free = context.deadline is not None and not context.is_late(), options.losses is None and not options.full
    is_measured = announce is not None or is_limited or is_free
    plan = make_plan(prepared, families, options, context, is_measured=is_measured, affordable=affordable)
    if announce is not None:
        announce(plan.lines)
    outcomes = list(_outcomes(prepared, families, options, context, plan))
    finished = [one for one in outcomes if isinstance(one, Finished)]
    notes = [
        *_notes_on_losses(families, options),
        *_notes_on_pairs(prepared, plan.losses),
        *(note for one in finished for note in one.notes),
    ]
    notes += [f"{one.title} was left out: {one.reason}" for one in outcomes if isinstance(one, LeftOut)]
    if not finished:
        raise NothingFinishedError(f"{prepared.source.name}: no loss was finished. {' '.join(notes)}")
    best = max(finished, key=lambda one: one.validation)
    problem = _problem(prepared, families, options, [one.method for one in finished], notes, best.method.name, plan)
    problem = replace(problem, warnings=warnings, references=references)
    is_late = any(one.is_cut if isinstance(one, Finished) else one.is_late for one in outcomes)
    return Compared(problem, best.model, is_late)


def plan_problem(problem: Source | str, options: Options, context: RunContext, *, affordable: float = AFFORDABLE) -> Plan:
    """Measure how long the losses take on a table or curve, and choose those to train; nothing is written."""
    if isinstance(problem, str):
        return plan_curve(problem, options, context)
    prepared, families = prepare(problem, options), load_families(options)
    check_pairs(prepared, families, options)
    return make_plan(prepared, families, options, context, affordable=affordable)


def _outcomes(
    prepared: Prepared, families: Sequence[Family], options: Options, context: RunContext, plan: Plan
) -> Iterator[Finished | LeftOut]:
    """Yield the results of all families; each has a share of the time by what its losses take. Drawing needs some time, too."""
    if context.deadline is not None:
        needed = _RESERVE_FACTOR * report_seconds(len(plan.losses) * len(families)) + _SAVING_SECONDS
        reserve = min(needed, 0.3 * max(context.deadline - time.monotonic(), 0.0))
        context = replace(context, deadline=context.deadline - reserve)
    left = [[loss for loss in plan.losses if loss in losses_of(family.name)] for family in families]
    for number, (family, losses) in enumerate(zip(families, left, strict=True)):
        rest = zip(families[number:], left[number:], strict=True)
        seconds = [sum(loss.seconds for loss in plan.estimates_of(one.name, own)) for one, own in rest]
        share = seconds[0] / max(sum(seconds), 1e-9)
        yield from family.compare(losses, prepared, options, context.with_share(share), plan)


def _notes_on_losses(families: Sequence[Family], options: Options) -> list[str]:
    """Return a note on the chosen losses that some families cannot be trained with."""
    notes = []
    for losses in dict.fromkeys(losses_of(family.name) for family in families):
        names = [family.name for family in families if losses_of(family.name) == losses]
        rest = [LOSSES[loss].title for loss in options.losses_or(PAPER_LOSSES) if loss not in losses]
        if rest:
            notes.append(f"{', '.join(rest)}: for networks only, and not tried with {' and '.join(names)}.")
    return notes


def _notes_on_pairs(prepared: Prepared, losses: Sequence[str]) -> list[str]:
    """Return a note on losses that cannot compare rows within groups."""
    column, rest = prepared.source.pairs_within, [LOSSES[loss].title for loss in losses if not LOSSES[loss].takes("groups")]
    if column is None or not rest:
        return []
    return [
        f"{', '.join(rest)}: trained and tuned on all rows, as these losses take no groups; their test scores are within {column}, "
        "as those of the others."
    ]


def _problem(
    prepared: Prepared,
    families: Sequence[Family],
    options: Options,
    methods: list[Method],
    notes: list[str],
    saved: str,
    plan: Plan,
) -> Problem:
    """Return the table with its methods, family by family in the order of the registry's losses."""
    source, order = prepared.source, [family.name for family in families]
    settings = {
        "preset": options.preset or "default",
        **{name: value for family in families for name, value in family.settings(prepared, options).items()},
        "labels": "standardised" if options.preset is None else "raw",
        "test_rows": len(prepared.test),
        "folds": len(prepared.parts),
        "split": prepared.split,
        "seed": options.seed,
    }
    return Problem(
        name=source.name,
        title=source.title,
        source=source.source,
        rows=len(source.labels),
        features=source.features.shape[1],
        targets=source.targets,
        train_rows=prepared.train_rows,
        test_rows=len(prepared.test),
        selected_by=options.metric,
        pairs_within=source.pairs_within,
        settings=settings,
        methods=sorted(methods, key=lambda method: (order.index(method.family), list(LOSSES).index(method.loss))),
        notes=(*prepared.notes, *notes),
        saved=saved,
        sha256=source.sha256,
        plan=plan.lines,
        estimated_seconds=plan.total,
    )
