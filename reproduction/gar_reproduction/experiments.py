"""Every experiment as data: a list of cells.

To add one, write a function that returns its cells, enter it in ``_CELLS``, and describe it in
:data:`gar_reproduction.names.EXPERIMENTS`: it then has a command and a page.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from gar.errors import InputError
from gar.registry import LOSSES, PAPER_LOSSES
from gar.stack import Models, StackData
from gar_reproduction import protocol
from gar_reproduction.cell import Cell, Recorded
from gar_reproduction.names import EXPERIMENTS
from gar_reproduction.protocol import SEEDS, table_data, table_models

PARKINSON = ("parkinson-total", "parkinson-motor")
SMALL_TABLES = ("concrete", "wine", *PARKINSON)
TABLES = ("concrete", "wine", "wine-white", *PARKINSON, "superconductivity", "gdsc")
ALPHAS = (0.1, 0.2, 0.25, 0.4, 0.5, 0.8, 1.0, 1.25, 2.0, 2.5, 4.0, 5.0, 10.0)
BATCH_SIZES = (32, 64, 128, 256, 512)
CURVES = ("sine", "squared-sine")
CURVE_METHODS = ("mae", "mse", "mae_pearson", "rnc", "gar")
LAYERS = (2, 4, 6, 8, 10)
_COMPONENTS = ("mae", "diff", "diffnorm")
COMPONENT_SETS = {"+".join(some): some for size in (1, 2) for some in combinations(_COMPONENTS, size)} | {"gar": _COMPONENTS}
"""The components of GAR that each variant of the ablation keeps."""


def table_cell(
    experiment: str,
    task: str,
    variant: str,
    *,
    loss: str | None = None,
    title: str | None = None,
    load: Callable[[], StackData] | None = None,
    models: Models | None = None,
    recorded: Recorded = "scores",
    origin: Callable[[str], tuple[str, ...]] = protocol.table_origin,
    **settings: Any,
) -> Cell:
    """Return a cell of one loss on one of the paper's tables; what is not given is as in Table 1.

    Args:
        experiment: its name, which is also the folder of its records.
        task: name of the table.
        variant: name of the cell in this experiment.
        loss: a name of :data:`gar.registry.LOSSES`, such as one of yours; None is the variant's name.
        title: for people; None is the loss's title.
        load: returns the data; None takes the authors' split.
        models: the grid; None is the paper's.
        recorded: what the record holds.
        origin: describes the data.
        settings: further settings of training.
    """
    loss = loss or variant
    features = "none" if task == "gdsc" else "whole"  # the paper left its IC50 table as it was
    return Cell(
        experiment=experiment,
        task=task,
        variant=variant,
        title=title or LOSSES[loss].title,
        load=load or partial(table_data, task, features=features),
        models=table_models(LOSSES[loss].grid) if models is None else models,
        settings=protocol.table_settings(task, loss, **settings),
        recorded=recorded,
        origin=partial(origin, task),
    )


def _table1() -> list[Cell]:
    return [table_cell("table1", task, method) for task in TABLES for method in PAPER_LOSSES]


def _selected_alpha() -> list[Cell]:
    """Return GAR's cells of Table 1: this experiment shows what the validation rows selected there."""
    return [cell for cell in _table1() if cell.variant == "gar"]


def _table1_on(experiment: str, tasks: Iterable[str], load: Callable[..., StackData], **origin: Any) -> list[Cell]:
    """Return the cells of Table 1 on other data."""
    pairs = [(task, method) for task in tasks for method in PAPER_LOSSES]
    return [table_cell(experiment, task, method, load=partial(load, task), **origin) for task, method in pairs]


def _ablation() -> list[Cell]:
    return [_component_cell(task, variant) for task in SMALL_TABLES for variant in COMPONENT_SETS]


def _component_cell(task: str, variant: str) -> Cell:
    """Return a cell of GAR with some of its components."""
    if variant == "gar":
        return table_cell("ablation", task, variant)
    components = COMPONENT_SETS[variant]
    # One component alone has the same gradient for every alpha: three seeds stand in for three values.
    models = table_models((1.0,), seeds=SEEDS) if len(components) == 1 else None
    return table_cell("ablation", task, variant, loss="gar", title=variant, models=models, loss_options={"components": components})


def _alpha() -> list[Cell]:
    return [table_cell("alpha", task, "gar", models=table_models(ALPHAS)) for task in SMALL_TABLES]


def _batch_size() -> list[Cell]:
    return [
        table_cell("batch-size", task, str(size), loss="gar", title=f"batch {size}", recorded="moments", batch_size=size)
        for task in SMALL_TABLES
        for size in BATCH_SIZES
    ]


def _differences() -> list[Cell]:
    """Return cells for each way in which text, equations and code of the paper differ, on two tables, beside our choice."""
    found = []
    for task in ("concrete", "wine"):
        cell, fresh = partial(table_cell, "differences", task), partial(table_data, task, is_fresh=True)
        found += [
            cell("mae"),
            cell("mae-one-seed", loss="mae", title="MAE, one seed instead of three", models=table_models((), seeds=SEEDS[:1])),
            cell("conr"),
            cell("conr-as-coded", loss="conr", title="ConR, masked rows counted", loss_options={"count_excluded": True}),
            cell("gar"),
            cell("gar-half-diff", loss="gar", title="GAR, half of L_diff", loss_options={"weights": (1.0, 0.5, 1.0)}),
            cell("gar-double-diffnorm", loss="gar", title="GAR, 2(1 - r)", loss_options={"weights": (1.0, 1.0, 2.0)}),
            cell("gar-bessel", loss="gar", title="GAR, deviations with N - 1", loss_options={"correction": 1}),
            cell("gar-new-split", loss="gar", title="GAR, a split of our own", load=fresh, origin=protocol.fresh_origin),
        ]
    return [*found, *_other_seeds(), *_smaller_rates()]


def _other_seeds() -> list[Cell]:
    """Return cells whose result depends on the initial weights: RankSim on Concrete, where gamma = 100 hardly lets it train, and
    MAE, its focal form and GAR on Parkinson, where the largest learning rate is best or fails."""
    each: list[tuple[int, ...]] = [(seed,) for seed in range(123, 127)]
    rates = (1e-1, 1e-2)
    found = _with_seeds("concrete", "ranksim", each, learning_rates=None)
    for task in PARKINSON:
        found += _with_seeds(task, "mae", [(seed, seed + 1, seed + 2) for seed in (123, 126, 129)], learning_rates=rates)
        found += _with_seeds(task, "gar", each[:3], learning_rates=rates)
    return [*found, *_with_seeds("parkinson-motor", "focal_mae", each, learning_rates=rates)]


def _with_seeds(task: str, loss: str, choices: list[tuple[int, ...]], *, learning_rates: tuple[float, ...] | None) -> list[Cell]:
    """Return a cell for each choice of seeds. The first choice is that of Table 1, and its variant has no number."""
    return [
        table_cell(
            "differences",
            task,
            loss if index == 0 else f"{loss}-{seeds[0]}",
            loss=loss,
            title=f"{LOSSES[loss].title}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}",
            models=table_models(LOSSES[loss].grid, seeds=seeds, learning_rates=learning_rates),
        )
        for index, seeds in enumerate(choices)
    ]


def _smaller_rates() -> list[Cell]:
    """Return cells of Superconductivity without the two largest learning rates: did the paper's runs lack them?"""
    found = []
    for loss in ("mae", "huber", "focal_mae", "conr", "gar"):
        cell = partial(table_cell, "differences", "superconductivity")
        title = f"{LOSSES[loss].title}, learning rates up to 1e-3"
        models = table_models(LOSSES[loss].grid, learning_rates=(1e-3, 1e-4, 1e-5))
        found += [cell(loss), cell(f"{loss}-smaller-rates", loss=loss, title=title, models=models)]
    return found


def _curve_cell(experiment: str, task: str, method: str, *, layers: int, variant: str, alphas: tuple[float, ...]) -> Cell:
    return Cell(
        experiment=experiment,
        task=task,
        variant=variant,
        title=LOSSES[method].title,
        load=partial(protocol.curve_data, task),
        models=protocol.curve_models(method, alphas),
        settings=protocol.curve_settings(method, layers=layers),
        recorded="curve",
        origin=partial(protocol.curve_origin, task),
    )


def _synthetic() -> list[Cell]:
    """Return cells of five losses, and of MAE-Pearson as in the authors' code, which weighs its two parts differently."""
    found = []
    for task in CURVES:
        cells = {name: _curve_cell("synthetic", task, name, layers=5, variant=name, alphas=(0.5,)) for name in CURVE_METHODS}
        text = cells["mae_pearson"]
        settings = replace(text.settings, loss_options={"balance": "code"})
        found += [*cells.values(), replace(text, variant="mae_pearson-code", title="MAE-Pearson (code)", settings=settings)]
    return found


def _depth() -> list[Cell]:
    return [
        _curve_cell("depth", "sine", method, layers=layers, variant=f"{method}-{layers}", alphas=(0.5, 1.0, 2.0))
        for layers in LAYERS
        for method in CURVE_METHODS
    ]


_CELLS: Mapping[str, Callable[[], list[Cell]]] = {
    "table1": _table1,
    # Tables with one target: a mean over targets could not be converted back to standardised units.
    "standardized": partial(_table1_on, "standardized", SMALL_TABLES, partial(table_data, labels="train")),
    "ablation": _ablation,
    "alpha": _alpha,
    "batch-size": _batch_size,
    "selected-alpha": _selected_alpha,
    "synthetic": _synthetic,
    "depth": _depth,
    "by-subject": partial(_table1_on, "by-subject", PARKINSON, protocol.subject_data, origin=protocol.subject_origin),
    "train-statistics": partial(_table1_on, "train-statistics", SMALL_TABLES, partial(table_data, features="train")),
    "differences": _differences,
    # 'runtime', 'symbolic' and 'agedb' train no stacks: they consist of gar_reproduction.studies.
}

CELL_EXPERIMENTS = tuple(name for name in EXPERIMENTS if name in _CELLS)
"""The experiments that consist of cells."""


def cells(experiment: str, *, tasks: Sequence[str] = (), methods: Sequence[str] = (), strict: bool = True) -> list[Cell]:
    """Return the cells of an experiment, all or some of them.

    Args:
        experiment: one of :data:`CELL_EXPERIMENTS`.
        tasks: only these; none is all.
        methods: only these methods or variants; none is all.
        strict: a task or method that the experiment does not have is an error; else it is ignored.

    Example:
        >>> [cell.name for cell in cells("table1", tasks=["concrete"], methods=["gar", "mae"])]
        ['table1/concrete/mae', 'table1/concrete/gar']
    """
    if experiment not in _CELLS:
        raise InputError(f"{experiment!r} is no experiment of trained stacks; there are {', '.join(_CELLS)}")
    found = _CELLS[experiment]()
    if strict:
        check_known(tasks, {cell.task for cell in found}, f"task of {experiment}")
        check_known(methods, {cell.variant for cell in found}, f"method of {experiment}")
    return [cell for cell in found if (not tasks or cell.task in tasks) and (not methods or cell.variant in methods)]


def check_known(given: Sequence[str], known: Iterable[str], what: str) -> None:
    """Raise an error for the first name that is unknown, with the names that are known."""
    for name in given:
        if name not in known:
            raise InputError(f"{name!r} is no {what}; there are {', '.join(sorted(known))}")
