"""Every experiment as data: a list of units."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gar.errors import InputError
from gar.functional.gar import COMPONENTS
from gar.losses import registry
from gar.stack import StackData
from gar_reproduction.names import EXPERIMENTS, METHODS
from gar_reproduction.protocol import (
    SEEDS,
    curve_data,
    curve_models,
    curve_origin,
    curve_settings,
    fresh_origin,
    subject_data,
    subject_origin,
    table_data,
    table_models,
    table_origin,
    table_settings,
)
from gar_reproduction.unit import Unit

TABLES = ("concrete", "wine", "wine-white", "parkinson-total", "parkinson-motor", "superconductivity", "gdsc")
SMALL_TABLES = ("concrete", "wine", "parkinson-total", "parkinson-motor")
ALPHAS = (0.1, 0.2, 0.25, 0.4, 0.5, 0.8, 1.0, 1.25, 2.0, 2.5, 4.0, 5.0, 10.0)
BATCH_SIZES = (32, 64, 128, 256, 512)
CURVES = ("sine", "squared-sine")
CURVE_METHODS = ("mae", "mse", "mae_pearson", "rnc", "gar")
LAYERS = (2, 4, 6, 8, 10)
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "mae": ("mae",),
    "diff": ("diff",),
    "diffnorm": ("diffnorm",),
    "mae+diff": ("mae", "diff"),
    "mae+diffnorm": ("mae", "diffnorm"),
    "diff+diffnorm": ("diff", "diffnorm"),
    "gar": COMPONENTS,
}
"""Of the ablation: which components of GAR are left."""


def _table1() -> list[Unit]:
    return [_table1_unit(task, method) for task in TABLES for method in METHODS]


def _table1_unit(task: str, method: str) -> Unit:
    return Unit(
        experiment="table1",
        task=task,
        variant=method,
        title=METHODS[method],
        load=partial(table_data, task, features="none" if task == "gdsc" else "whole"),  # the paper left its IC50 table as it was
        models=table_models(registry[method].grid),
        settings=table_settings(task, method),
        origin=partial(table_origin, task),
    )


def _selected_alpha() -> list[Unit]:
    """Nothing of its own: what the validation rows chose in the first table."""
    return [unit for unit in _table1() if unit.variant == "gar"]


def _nine_methods(experiment: str, tasks: Iterable[str], load: Callable[[str], Callable[[], StackData]]) -> list[Unit]:
    """The first table on other data."""
    return [
        Unit(
            experiment=experiment,
            task=task,
            variant=method,
            title=METHODS[method],
            load=load(task),
            models=table_models(registry[method].grid),
            settings=table_settings(task, method),
            origin=partial(subject_origin if experiment == "by-subject" else table_origin, task),
        )
        for task in tasks
        for method in METHODS
    ]


def _standardized() -> list[Unit]:
    """Tables of one target: means over targets, each in its own units, could not be brought back to standardised ones."""
    return _nine_methods("standardized", SMALL_TABLES, lambda task: partial(table_data, task, labels="train"))


def _train_statistics() -> list[Unit]:
    return _nine_methods("train-statistics", SMALL_TABLES, lambda task: partial(table_data, task, features="train"))


def _by_subject() -> list[Unit]:
    return _nine_methods("by-subject", ("parkinson-total", "parkinson-motor"), lambda task: partial(subject_data, task))


def _ablation() -> list[Unit]:
    return [
        Unit(
            experiment="ablation",
            task=task,
            variant=variant,
            title=variant if variant != "gar" else "GAR",
            load=partial(table_data, task),
            # One component alone has the same gradient for every alpha: three seeds stand in for three values.
            models=table_models(registry["gar"].grid) if len(components) > 1 else table_models((1.0,), seeds=SEEDS),
            settings=table_settings(task, "gar", loss_options={} if variant == "gar" else {"components": components}),
            origin=partial(table_origin, task),
        )
        for task in SMALL_TABLES
        for variant, components in VARIANTS.items()
    ]


def _alpha() -> list[Unit]:
    return [
        Unit(
            experiment="alpha",
            task=task,
            variant="gar",
            title="GAR",
            load=partial(table_data, task),
            models=table_models(ALPHAS),
            settings=table_settings(task, "gar"),
            origin=partial(table_origin, task),
        )
        for task in SMALL_TABLES
    ]


def _batch_size() -> list[Unit]:
    return [
        Unit(
            experiment="batch-size",
            task=task,
            variant=str(size),
            title=f"batch {size}",
            load=partial(table_data, task),
            models=table_models(registry["gar"].grid),
            settings=table_settings(task, "gar", batch_size=size),
            keeps="moments",
            origin=partial(table_origin, task),
        )
        for task in SMALL_TABLES
        for size in BATCH_SIZES
    ]


def _differences() -> list[Unit]:
    """Where text, equations and code of the paper differ, each way on two tables, beside what we do."""
    found = []
    for task in ("concrete", "wine"):
        plain = {method: replace(_table1_unit(task, method), experiment="differences") for method in ("mae", "conr", "gar")}
        mae, conr, gar = plain.values()
        fresh = partial(table_data, task, is_fresh=True)
        found += [
            mae,
            replace(mae, variant="mae-one-seed", title="MAE, one seed instead of three", models=table_models((), seeds=SEEDS[:1])),
            conr,
            _with_options(conr, "conr-as-coded", "ConR, masked rows counted", count_excluded=True),
            gar,
            _with_options(gar, "gar-half-diff", "GAR, half of L_diff", weights=(1.0, 0.5, 1.0)),
            _with_options(gar, "gar-double-diffnorm", "GAR, 2(1 - r)", weights=(1.0, 1.0, 2.0)),
            _with_options(gar, "gar-bessel", "GAR, deviations with N - 1", correction=1),
            replace(gar, variant="gar-new-split", title="GAR, a split of our own", load=fresh, origin=partial(fresh_origin, task)),
        ]
    return [*found, *_other_beginnings(), *_smaller_rates()]


def _other_beginnings() -> list[Unit]:
    """What trains or not depending on how weights begin: RankSim on Concrete, where gamma = 100 hardly lets it learn, and MAE, its
    focal form and GAR on Parkinson, where the largest learning rate is best or fails."""
    each: list[tuple[int, ...]] = [(seed,) for seed in range(123, 127)]
    rates = (1e-1, 1e-2)
    found = _with_seeds("concrete", "ranksim", each, learning_rates=None)
    for task in ("parkinson-total", "parkinson-motor"):
        found += _with_seeds(task, "mae", [(seed, seed + 1, seed + 2) for seed in (123, 126, 129)], learning_rates=rates)
        found += _with_seeds(task, "gar", each[:3], learning_rates=rates)
    return [*found, *_with_seeds("parkinson-motor", "focal_mae", each, learning_rates=rates)]


def _with_seeds(task: str, method: str, choices: list[tuple[int, ...]], *, learning_rates: tuple[float, ...] | None) -> list[Unit]:
    """A method of table 1 with seeds of other choices. The first is the table's own, and bears no number."""
    plain = replace(_table1_unit(task, method), experiment="differences")
    return [
        replace(
            plain,
            variant=method if place == 0 else f"{method}-{seeds[0]}",
            title=f"{plain.title}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}",
            models=table_models(registry[method].grid, seeds=seeds, learning_rates=learning_rates),
        )
        for place, seeds in enumerate(choices)
    ]


def _smaller_rates() -> list[Unit]:
    """Superconductivity without the two largest learning rates: are the paper's numbers of these methods those of such a grid?"""
    found = []
    for method in ("mae", "huber", "focal_mae", "conr", "gar"):
        plain = replace(_table1_unit("superconductivity", method), experiment="differences")
        smaller = table_models(registry[method].grid, learning_rates=(1e-3, 1e-4, 1e-5))
        title = f"{plain.title}, learning rates up to 1e-3"
        found += [plain, replace(plain, variant=f"{method}-smaller-rates", title=title, models=smaller)]
    return found


def _with_options(unit: Unit, variant: str, title: str, **options: object) -> Unit:
    return replace(unit, variant=variant, title=title, settings=replace(unit.settings, loss_options=options))


def _curve_unit(experiment: str, task: str, method: str, *, layers: int, variant: str, alphas: tuple[float, ...]) -> Unit:
    return Unit(
        experiment=experiment,
        task=task,
        variant=variant,
        title=registry[method].title,
        load=partial(curve_data, task),
        models=curve_models(method, alphas),
        settings=curve_settings(method, layers=layers),
        keeps="curve",
        origin=partial(curve_origin, task),
    )


def _synthetic() -> list[Unit]:
    """MAE-Pearson also as the authors' code has it, which weighs its two parts otherwise than the paper's text."""
    found = []
    for task in CURVES:
        plain = {name: _curve_unit("synthetic", task, name, layers=5, variant=name, alphas=(0.5,)) for name in CURVE_METHODS}
        text = plain["mae_pearson"]
        settings = replace(text.settings, loss_options={"balance": "code"})
        code = replace(text, variant="mae_pearson-code", title="MAE-Pearson (code)", settings=settings)
        found += [*plain.values(), code]
    return found


def _depth() -> list[Unit]:
    return [
        _curve_unit("depth", "sine", method, layers=layers, variant=f"{method}-{layers}", alphas=(0.5, 1.0, 2.0))
        for layers in LAYERS
        for method in CURVE_METHODS
    ]


_UNITS: Mapping[str, Callable[[], list[Unit]]] = {
    "table1": _table1,
    "standardized": _standardized,
    "ablation": _ablation,
    "alpha": _alpha,
    "batch-size": _batch_size,
    "selected-alpha": _selected_alpha,
    "synthetic": _synthetic,
    "depth": _depth,
    "by-subject": _by_subject,
    "train-statistics": _train_statistics,
    "differences": _differences,
    # 'runtime', 'symbolic' and 'agedb' train no stacks: they are made of gar_reproduction.studies.
}


def units(experiment: str, *, tasks: Sequence[str] = (), methods: Sequence[str] = (), strict: bool = True) -> list[Unit]:
    """The units of an experiment, all or some of them.

    Args:
        experiment: a name of :data:`gar_reproduction.names.EXPERIMENTS` that is made of units.
        tasks: only these; none is all.
        methods: only these methods or variants; none is all.
        strict: a task or method that the experiment does not have is an error; else it is passed over.

    Example:
        >>> [unit.name for unit in units("table1", tasks=["concrete"], methods=["gar", "mae"])]
        ['table1/concrete/mae', 'table1/concrete/gar']
    """
    if experiment not in _UNITS:
        raise InputError(f"{experiment!r} is no experiment of trained stacks; there are {', '.join(_UNITS)}")
    found = _UNITS[experiment]()
    if strict:
        check_known(tasks, {unit.task for unit in found}, f"task of {experiment}")
        check_known(methods, {unit.variant for unit in found}, f"method of {experiment}")
    return [unit for unit in found if (not tasks or unit.task in tasks) and (not methods or unit.variant in methods)]


def check_known(given: Sequence[str], known: Iterable[str], what: str) -> None:
    """A name that is not known is told at once, with those that are."""
    for name in given:
        if name not in known:
            raise InputError(f"{name!r} is no {what}; there are {', '.join(sorted(known))}")


UNIT_EXPERIMENTS = tuple(name for name in EXPERIMENTS if name in _UNITS)
"""In the order of their names."""
