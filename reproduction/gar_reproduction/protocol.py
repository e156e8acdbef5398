"""The paper's protocol: the grids, settings and splits that its experiments share."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from gar.estimators.presets import PAPER_PRESET, widths
from gar.metrics import mae, rmse
from gar.registry import LOSSES
from gar.stack import Models, StackData, TrainSettings
from gar_reproduction.data import splits
from gar_reproduction.data.catalog import describe
from gar_reproduction.data.loading import load
from gar_reproduction.data.splits import Features, Labels, Seed
from gar_reproduction.published import with_sd

FOLDS = range(5)
SEED, SEEDS = 123, (123, 124, 125)
"""A method without a parameter is run with three seeds, so that every method has 45 runs a fold, as in the authors' code."""
AUTHORS_ORDER = ("concrete", "wine", "superconductivity")
"""Tables whose rows are put into the authors' order where their file is missing: the files of the first two confirm the order,
and the third, which has no file, takes the same rule."""
CURVE_SEEDS = (1, 2, 3, 4, 5)
CURVE_RATES = (1e-1, 1e-2, 1e-3, 1e-4)
CURVE_DECAYS = (1e-3, 1e-4, 1e-5, 0.0)


def table_models(
    parameters: Iterable[float] | None, *, seeds: Iterable[int] | None = None, learning_rates: Iterable[float] | None = None
) -> Models:
    """Return the grid of a table: learning rates, decays, and values of the parameter, or seeds where there is none."""
    values = tuple(parameters or ())
    return Models.grid(
        folds=FOLDS,
        seeds=seeds or ((SEED,) if values else SEEDS),
        learning_rates=learning_rates or PAPER_PRESET["learning_rates"],
        weight_decays=PAPER_PRESET["weight_decays"],
        parameters=values or None,
    )


def table_settings(task: str, loss: str, **more: Any) -> TrainSettings:
    """Return all other settings of training on a table; the defaults of :class:`TrainSettings` are the paper's."""
    return TrainSettings(hidden_sizes=widths("paper", features=describe(task).features, rows=0), loss=loss, **more)


_load = cache(load)


def table_origin(task: str) -> tuple[str, ...]:
    """Describe the split of a table, and how the table differs from the authors' file."""
    if splits.has_authors_split(task):
        return ("The authors' own arrays and split.",)
    if task in AUTHORS_ORDER:
        return ("The authors' split, drawn anew by their random numbers.", *_load(task).notes)
    return fresh_origin(task)


def fresh_origin(task: str) -> tuple[str, ...]:
    """Describe a split that was drawn by the paper's protocol."""
    return ("Split by the paper's protocol with random numbers of our own.", *_load(task).notes)


def subject_origin(task: str) -> tuple[str, ...]:
    """Describe a split by person."""
    return ("Split by person.", _scores_of_a_constant(subject_data(task)), *_load(task).notes)


def _scores_of_a_constant(data: StackData) -> str:
    """Describe the errors of a constant prediction: for people who are not in the training rows, it may be hard to beat."""
    parts = [(data.y[fold.train].double(), data.y[fold.test].double()) for fold in data.folds]
    of_medians = [mae(train.quantile(0.5, 0).expand_as(test), test) for train, test in parts]
    of_means = [rmse(train.mean(0).expand_as(test), test) for train, test in parts]
    absolute, squared = (with_sd(float(np.mean(scores)), float(np.std(scores))) for scores in (of_medians, of_means))
    return f"A constant has MAE {absolute}, if it is the median of the training labels, and RMSE {squared}, if it is their mean."


@cache
def table_data(task: str, features: Features = "whole", labels: Labels = "raw", is_fresh: bool = False) -> StackData:
    """Return the authors' own split where their file exists or their random numbers are known, else one drawn by their protocol.

    ``is_fresh`` draws one in any case.
    """
    if splits.has_authors_split(task) and not is_fresh:
        return splits.authors_split(task, features=features, labels=labels)
    seed: Seed = "authors" if task in AUTHORS_ORDER and not is_fresh else 0
    return splits.paper_split(_load(task), seed=seed, features=features, labels=labels)


@cache
def subject_data(task: str) -> StackData:
    """Return a split by person. Features are standardised as in the paper, so that only the split differs."""
    return splits.group_split(_load(task), features="whole")


def curve_origin(task: str) -> tuple[str, ...]:
    """Describe the points of a curve."""
    half = "the authors' own half" if splits.has_authors_split(task) else "a random half"
    return (f"{len(curve_data(task).x)} points; {half} of them is trained on.",)


def curve_models(loss: str, alphas: tuple[float, ...]) -> Models:
    """Return the grid of a curve; GAR's alphas differ from those of tables."""
    return Models.grid(
        seeds=CURVE_SEEDS,
        learning_rates=CURVE_RATES,
        weight_decays=CURVE_DECAYS,
        parameters=alphas if loss == "gar" else LOSSES[loss].grid or None,
    )


def curve_settings(loss: str, *, layers: int) -> TrainSettings:
    """Return all other settings of training on a curve."""
    return TrainSettings(
        hidden_sizes=(100,) * layers,
        epochs=300,
        batch_size=128,
        optimizer="adam",
        milestones=(100, 200),
        loss=loss,
        pretrain_epochs=100 if "pred" not in LOSSES[loss].inputs else None,
    )


@cache
def curve_data(task: str) -> StackData:
    """Return a curve, half of whose points train. The other half, by which the paper selects, are the validation rows."""
    data = splits.authors_split(task) if splits.has_authors_split(task) else splits.half_split(_load(task))
    fold = data.folds[0]
    return StackData(data.x, data.y, [(fold.train, fold.valid, np.arange(0))])
