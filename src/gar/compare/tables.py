"""All chosen losses on one table."""

from typing import Any, NamedTuple

from gar.compare.judging import Judged, choose, judge
from gar.compare.options import NINE, Options
from gar.compare.preparing import Prepared, prepare
from gar.compare.running import Run, Trial
from gar.compare.source import Source
from gar.compare.winners import train_again
from gar.errors import InputError
from gar.losses import registry
from gar.models import TableModel
from gar.report.results import Problem
from gar.search import Selection


class Compared(NamedTuple):
    """What was found on a problem, and the best method's winners, where they make a model of a table."""

    problem: Problem
    model: TableModel | None
    is_late: bool
    """Whether time was up before all losses were done."""


class NothingFinishedError(InputError):
    """There is nothing to report: time was up too early, or every loss diverged."""


def compare_table(source: Source, options: Options, run: Run) -> Compared:
    """Train every chosen loss with its grid on every fold, judge it on the test rows, and keep the best by the validation rows.

    Args:
        source: the table.
        options: what to try.
        run: how to compute.

    Example:
        >>> from gar.compare import source_of_data_set
        >>> quick = Options(losses=("mae", "gar"), epochs=2, learning_rates=(0.01,), weight_decays=(0.001,))
        >>> found = compare_table(source_of_data_set("diabetes"), quick, Run(workers=1))
        >>> [method.name for method in found.problem.methods], found.problem.test_rows
        (['mae', 'gar'], 88)
    """
    prepared = prepare(source, options)
    judged, notes, is_late = _judge_all(prepared, options, run)
    best = max(judged, key=lambda one: one.merit)
    judged.sort(key=lambda one: list(registry).index(one.method.name))
    return Compared(_problem(prepared, options, judged, notes, best), best.model, is_late)


def _judge_all(prepared: Prepared, options: Options, run: Run) -> tuple[list[Judged], list[str], bool]:
    """Methods that were finished, what is to be said of the others, and whether time was up."""
    finished: list[tuple[Trial, dict[str, Selection]]] = []
    notes: list[str] = []
    late: list[str] = []
    for loss in options.chosen(NINE):
        settings = options.settings(loss, features=prepared.data.x.shape[1], train_rows=prepared.train_rows)
        models = options.models(loss, folds=options.folds)
        trial = run.attempt(prepared.data, models, settings, where=prepared.source.name)
        if trial is None:
            late.append(registry[loss].title)
            continue
        try:
            finished.append((trial, choose(trial)))
        except InputError as error:
            notes.append(f"{trial.title} was left out: {error}")
    if late:
        notes.append(f"Time was up before these were finished: {', '.join(late)}. The same command goes on where it was.")
    if not finished:
        raise NothingFinishedError(f"{prepared.source.name}: no loss was finished. {' '.join(notes)}")
    return _with_winners(finished, prepared, options.metric, run), notes, bool(late)


def _with_winners(finished: list[tuple[Trial, dict[str, Selection]]], prepared: Prepared, metric: str, run: Run) -> list[Judged]:
    """The winners of all methods are trained once more, side by side."""
    tasks = [(trial, chosen[metric]) for trial, chosen in finished]
    winners = run.side_by_side(
        train_again, [(prepared.data, trial.models.take(best.model), trial.settings, best.epoch) for trial, best in tasks]
    )
    pairs = zip(finished, winners, strict=True)
    return [judge(trial, chosen, one, prepared, metric) for (trial, chosen), one in pairs]


def _problem(prepared: Prepared, options: Options, judged: list[Judged], notes: list[str], best: Judged) -> Problem:
    source = prepared.source
    trained = [len(train) for train, _, _ in prepared.parts]
    return Problem(
        name=source.name,
        title=source.title,
        source=source.source,
        rows=len(source.labels),
        features=source.features.shape[1],
        targets=source.targets,
        train_rows=round(sum(trained) / len(trained)),
        test_rows=len(prepared.parts[0][2]),
        judged_by=options.metric,
        settings=_settings(prepared, options),
        methods=[one.method for one in judged],
        notes=(*prepared.notes, *notes),
        saved=best.method.name,
    )


def _settings(prepared: Prepared, options: Options) -> dict[str, Any]:
    settings = options.settings("mae", features=prepared.data.x.shape[1], train_rows=prepared.train_rows)
    recipe = options.recipe()
    return {
        "preset": options.preset or "default",
        "network": [prepared.data.x.shape[1], *settings.hidden_sizes, len(prepared.source.targets)],
        "epochs": settings.epochs,
        "batch_size": settings.batch_size,
        "optimizer": settings.optimizer,
        "schedule": settings.schedule,
        "learning_rates": list(recipe["learning_rates"]),
        "weight_decays": list(recipe["weight_decays"]),
        "labels": "standardised" if options.scale_labels else "raw",
        "test_rows": len(prepared.parts[0][2]),
        "folds": options.folds,
        "groups": "kept together" if prepared.source.groups is not None else "none",
        "seed": options.seed,
    }
