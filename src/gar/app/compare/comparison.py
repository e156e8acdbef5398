"""A whole comparison: all chosen losses and kinds of models on every problem, then the best model and the report in one folder.

On a table: train, select winners by validation rows, retrain them, score the test rows.
"""

import datetime
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gar import __version__
from gar.app.compare.curves import CURVES, compare_curve
from gar.app.compare.families import (
    Compared,
    Family,
    NothingFinishedError,
    Trial,
    Winners,
    load_families,
    losses_of,
    method_title,
    scored_method,
    selections_of,
)
from gar.app.compare.options import Options
from gar.app.compare.source import DIABETES, Prepared, Source, prepare, source_of_data_set
from gar.app.models import replacing_output
from gar.app.report.results import Method, Problem, Results
from gar.errors import InputError
from gar.registry import LOSSES, METRICS, PAPER_LOSSES, LossSpec, register, registered
from gar.search import RunContext, Selection, parallel_backend

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
    if name in CURVES and group is not None:
        raise InputError(f"group={group!r} is not known; {name} has no groups")
    return name if name in CURVES else source_of_data_set(name, group=group)


def compare_and_report(
    problems: Sequence[Source | str], options: Options, context: RunContext, *, out: Path, command: str
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
    """
    with parallel_backend(context.backend, address=context.address, workers=context.workers):
        context = replace(context, records=out / "records", backend=None, address=None)  # the open backend, once for all searches
        context.start_workers()
        found, is_late = _compare_all(problems, options, context)
    results = Results(
        command=command,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gar=__version__,
        problems=[one.problem for one in found],
    )
    from gar.app.report.page import write_report  # draws with matplotlib, which takes a second to import

    model = next((one.model for one in found if one.model is not None), None)
    with replacing_output(out) as folder:
        if model is not None:
            model.save(folder / "model")
        page = write_report(results, folder)
    return Report(results, out / page.name, None if model is None else out / "model", is_late)


def _compare_all(problems: Sequence[Source | str], options: Options, context: RunContext) -> tuple[list[Compared], bool]:
    """Return the results of problems on which anything was finished, and whether the time limit was reached."""
    found: list[Compared] = []
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


def compare_table(source: Source, options: Options, context: RunContext) -> Compared:
    """Train every chosen loss with its grid on every fold, score the test rows, and keep the best method by validation rows.

    Args:
        source: the table.
        options: what to train.
        context: how to compute.

    Example:
        >>> from gar.app.compare import source_of_data_set
        >>> quick = Options(losses=("mae", "gar"), epochs=2, learning_rates=(0.01,), weight_decays=(0.001,))
        >>> found = compare_table(source_of_data_set("diabetes"), quick, RunContext(workers=1))
        >>> [method.name for method in found.problem.methods], found.problem.test_rows
        (['mae', 'gar'], 88)
    """
    families = load_families(options)
    prepared = prepare(source, options)
    finished, notes, is_late = _train(prepared, families, options, context)
    scores = [METRICS[options.metric].sign * one.selections[options.metric].mean("valid", options.metric) for one in finished]
    best = int(np.argmax(scores))
    winners = context.map(_retrain, [(one, prepared, options, registered([one.trial.loss])) for one in finished])
    pairs = zip(finished, winners, strict=True)
    methods = [scored_method(one.trial, one.selections, own, prepared, options.metric) for one, own in pairs]
    problem = _problem(prepared, families, options, methods, notes, saved=methods[best].name)
    return Compared(problem, winners[best].model, is_late)


class Finished(NamedTuple):
    """A trial, and the winners by every metric."""

    family: Family
    trial: Trial
    selections: dict[str, Selection]


def _train(
    prepared: Prepared, families: Sequence[Family], options: Options, context: RunContext
) -> tuple[list[Finished], list[str], bool]:
    """Return the trials that were finished, notes on the others, and whether the time limit was reached."""
    finished: list[Finished] = []
    notes, late = _notes_on_losses(families, options), list[str]()
    for loss, family in product(options.losses_or(PAPER_LOSSES), families):
        if loss not in losses_of(family.name):
            continue
        trial = family.train(loss, prepared, options, context)
        if trial is None:
            late.append(method_title(loss, family.name))
            continue
        try:
            finished.append(Finished(family, trial, selections_of(trial)))
        except InputError as error:
            notes.append(f"{trial.title} was left out: {error}")
    if late:
        notes.append(f"The time limit was reached before these were finished: {', '.join(late)}. The same command continues.")
    if not finished:
        raise NothingFinishedError(f"{prepared.source.name}: no loss was finished. {' '.join(notes)}")
    return finished, notes, bool(late)


def _notes_on_losses(families: Sequence[Family], options: Options) -> list[str]:
    """Return a note on the chosen losses that some families cannot be trained with."""
    notes = []
    for losses in dict.fromkeys(losses_of(family.name) for family in families):
        names = [family.name for family in families if losses_of(family.name) == losses]
        rest = [LOSSES[loss].title for loss in options.losses_or(PAPER_LOSSES) if loss not in losses]
        if rest:
            notes.append(f"{', '.join(rest)}: for networks only, and not tried with {' and '.join(names)}.")
    return notes


def _retrain(one: Finished, prepared: Prepared, options: Options, losses: dict[str, LossSpec]) -> Winners:
    for name, spec in losses.items():  # a worker process does not know losses that were registered in this one
        register(name, spec)
    return one.family.retrain(one.trial, one.selections[options.metric], prepared, options)


def _problem(
    prepared: Prepared, families: Sequence[Family], options: Options, methods: list[Method], notes: list[str], *, saved: str
) -> Problem:
    """Return the table with its methods, family by family in the order of the registry's losses."""
    source, order = prepared.source, [family.name for family in families]
    test_rows = len(prepared.parts[0][2])
    settings = {
        "preset": options.preset or "default",
        **{name: value for family in families for name, value in family.settings(prepared, options).items()},
        "labels": "standardised" if options.preset is None else "raw",
        "test_rows": test_rows,
        "folds": options.folds,
        "groups": "kept together" if source.groups is not None else "none",
        "seed": options.seed,
    }
    return Problem(
        name=source.name,
        title=source.title,
        source=source.source,
        rows=len(source.labels),
        features=source.features.shape[1],
        targets=source.targets,
        train_rows=round(sum(len(train) for train, _, _ in prepared.parts) / len(prepared.parts)),
        test_rows=test_rows,
        selected_by=options.metric,
        settings=settings,
        methods=sorted(methods, key=lambda method: (order.index(method.family), list(LOSSES).index(method.loss))),
        notes=(*prepared.notes, *notes),
        saved=saved,
    )
