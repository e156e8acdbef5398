"""All chosen losses and kinds of models on one table."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from gar.app.compare.families import Family, Trial, Winners
from gar.app.compare.judging import Judged, choose, judge
from gar.app.compare.networks import Networks
from gar.app.compare.options import NETWORKS, PAPER_LOSSES, Options
from gar.app.compare.preparing import Prepared, prepare
from gar.app.compare.source import Source
from gar.app.models import Model
from gar.app.report.results import Problem
from gar.errors import InputError
from gar.losses import registry
from gar.search import RunContext, Selection


class Compared(NamedTuple):
    """What was found on a problem, and the best method's winners, where they make a model of a table."""

    problem: Problem
    model: Model | None
    is_late: bool
    """Whether time was up before all losses were done."""


class NothingFinishedError(InputError):
    """There is nothing to report: time was up too early, or every loss diverged."""


def compare_table(source: Source, options: Options, run: RunContext) -> Compared:
    """Train every chosen loss with its grid on every fold, judge it on the test rows, and keep the best by the validation rows.

    Args:
        source: the table.
        options: what to try.
        run: how to compute.

    Example:
        >>> from gar.app.compare import source_of_data_set
        >>> quick = Options(losses=("mae", "gar"), epochs=2, learning_rates=(0.01,), weight_decays=(0.001,))
        >>> found = compare_table(source_of_data_set("diabetes"), quick, RunContext(workers=1))
        >>> [method.name for method in found.problem.methods], found.problem.test_rows
        (['mae', 'gar'], 88)
    """
    families = families_of(options)
    prepared = prepare(source, options)
    judged, notes, is_late = _judge_all(prepared, families, options, run)
    best = max(judged, key=lambda one: one.merit)
    order = [family.name for family in families]
    judged.sort(key=lambda one: (order.index(one.method.family), list(registry).index(one.method.loss)))
    settings = _settings(prepared, families, options)
    return Compared(_problem(prepared, options, settings, judged, notes, best), best.model, is_late)


def families_of(options: Options) -> list[Family]:
    """The chosen kinds of models, each once; an error says what has to be installed."""
    families = [_family(name) for name in dict.fromkeys(options.families)]
    for family in families:
        family.check()
    if not any(set(family.losses) & set(options.chosen(PAPER_LOSSES)) for family in families):
        raise InputError(
            f"{', '.join(options.families)}: none of {', '.join(options.chosen(PAPER_LOSSES))} fits; {_fitting(families)}"
        )
    return families


def _family(name: str) -> Family:
    if name == NETWORKS:
        return Networks()
    from gar.app.compare.trees import BoostedTrees  # imports scikit-learn, which networks do without

    return BoostedTrees("xgboost" if name == "xgboost" else "lightgbm")


def _fitting(families: Sequence[Family]) -> str:
    losses = dict.fromkeys(loss for family in families for loss in family.losses)
    return f"they are trained with {', '.join(losses)}"


def _left_out(families: Sequence[Family], options: Options) -> list[str]:
    """One line on the losses that some families know nothing of."""
    notes = []
    for losses in dict.fromkeys(family.losses for family in families):
        names = [family.name for family in families if family.losses == losses]
        rest = [registry[loss].title for loss in options.chosen(PAPER_LOSSES) if loss not in losses]
        if rest:
            notes.append(f"{', '.join(rest)}: for networks only, and not tried with {' and '.join(names)}.")
    return notes


def _judge_all(
    prepared: Prepared, families: Sequence[Family], options: Options, run: RunContext
) -> tuple[list[Judged], list[str], bool]:
    """Methods that were finished, what is to be said of the others, and whether time was up."""
    finished: list[Finished] = []
    notes, late = _left_out(families, options), list[str]()
    for loss, family in product(options.chosen(PAPER_LOSSES), families):
        if loss not in family.losses:
            continue
        trial = family.attempt(loss, prepared, options, run)
        if trial is None:
            late.append(family.title_of(loss))
            continue
        try:
            finished.append(Finished(family, trial, choose(trial)))
        except InputError as error:
            notes.append(f"{trial.title} was left out: {error}")
    if late:
        notes.append(f"Time was up before these were finished: {', '.join(late)}. The same command goes on where it was.")
    if not finished:
        raise NothingFinishedError(f"{prepared.source.name}: no loss was finished. {' '.join(notes)}")
    return _with_winners(finished, prepared, options, run), notes, bool(late)


class Finished(NamedTuple):
    """A trial, and what every metric chooses of it."""

    family: Family
    trial: Trial
    chosen: dict[str, Selection]


def _with_winners(finished: list[Finished], prepared: Prepared, options: Options, run: RunContext) -> list[Judged]:
    """The winners of all methods are trained once more, side by side."""
    metric = options.metric
    winners = run.map(_train_again, [(one.family, one.trial, one.chosen[metric], prepared, options) for one in finished])
    pairs = zip(finished, winners, strict=True)
    return [judge(one.trial, one.chosen, again, prepared, metric) for one, again in pairs]


def _train_again(family: Family, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
    return family.train_again(trial, best, prepared, options)


def _problem(
    prepared: Prepared, options: Options, settings: dict[str, Any], judged: list[Judged], notes: list[str], best: Judged
) -> Problem:
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
        selected_by=options.metric,
        settings=settings,
        methods=[one.method for one in judged],
        notes=(*prepared.notes, *notes),
        saved=best.method.name,
    )


def _settings(prepared: Prepared, families: Sequence[Family], options: Options) -> dict[str, Any]:
    own = [family.settings(prepared, options) for family in families]
    return {
        "preset": options.preset or "default",
        **{name: value for settings in own for name, value in settings.items()},
        "labels": "standardised" if options.scale_labels else "raw",
        "test_rows": len(prepared.parts[0][2]),
        "folds": options.folds,
        "groups": "kept together" if prepared.source.groups is not None else "none",
        "seed": options.seed,
    }
