"""Choices of a comparison: which losses and models, how they are trained, and which metric selects the winners."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gar.errors import InputError
from gar.estimators.presets import PAPER_PRESET, train_settings
from gar.registry import BASELINE, FAMILIES, LOSSES, METHOD_OF_INTEREST, METRICS, NETWORKS, PAPER_LOSSES
from gar.stack import Models, TrainSettings
from gar.validation import check_choice


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a comparison; None is the default of :class:`gar.estimators.GARRegressorCV`, or of the preset.

    Args:
        losses: names of :data:`gar.registry.LOSSES`; None is the paper's nine, or as many of them as are done in a few minutes.
        full: train all of the paper's nine, however long it takes.
        families: kinds of models, of :data:`gar.registry.FAMILIES`. Boosted trees have a small grid of their own (depth and
            learning rate), and early stopping; of the options below they use ``folds``, ``seed`` and ``metric``.
        parameters: values to try of the tuned parameter, by loss; other losses try the grid of the registry.
        preset: ``"paper"`` is the paper's preset: SGD, its grids, networks and schedule, raw labels.
        learning_rates: values to try.
        weight_decays: values to try.
        epochs: passes over the training rows.
        batch_size: rows of a mini-batch.
        hidden_sizes: widths of the hidden layers, or ``"paper"``: the paper's by number of features.
        folds: number of cross-validation folds of the rows that are not test rows; None is five, or above 20,000 rows three random
            splits.
        seed: of the split and of the networks.
        metric: the validation metric that selects winners.

    Example:
        >>> paper = Options(preset="paper")
        >>> len(paper.models("gar", 5)), len(paper.models("mae", 5))
        (225, 225)
    """

    losses: tuple[str, ...] | None = None
    full: bool = False
    families: tuple[str, ...] = (NETWORKS,)
    parameters: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    preset: str | None = None
    learning_rates: tuple[float, ...] | None = None
    weight_decays: tuple[float, ...] | None = None
    epochs: int | None = None
    batch_size: int | None = None
    hidden_sizes: str | tuple[int, ...] | None = None
    folds: int | None = None
    seed: int = 123
    metric: str = "mae"

    def __post_init__(self) -> None:
        check_choice(self.metric, tuple(METRICS), "metric")
        if self.preset is not None:
            check_choice(self.preset, ("paper",), "preset")
        for name in (*self.losses_or(PAPER_LOSSES), *self.parameters):
            if name not in LOSSES:
                raise InputError(
                    f"loss {name!r} is unknown; choose one of {', '.join(LOSSES)}, or register one of your own with "
                    "gar.losses.register, in a module that --plugin names on the command line"
                )
        if not self.families:
            raise InputError(f"no kind of model is chosen; name at least one of {', '.join(FAMILIES)}")
        for name in self.families:
            check_choice(name, tuple(FAMILIES), "model")
        for name, values in self.parameters.items():
            if LOSSES[name].parameter is None or not values:
                raise InputError(f"{name} is given the values {list(values)}, but has no such parameter; leave it out")
        if self.folds is not None and self.folds < 2:
            raise InputError(f"folds={self.folds} is too few; use 2 or more")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"seed={self.seed} is out of range; use a number from 0 to {2**31 - 1}")
        self.models(BASELINE, 2)
        for name in self.losses_or(PAPER_LOSSES):
            self.settings(name, features=1)

    def losses_or(self, default: Iterable[str]) -> tuple[str, ...]:
        """Return the losses in training order: the baseline and the method of interest first, in case the time limit is reached."""
        names = list(dict.fromkeys(default if self.losses is None else self.losses))
        if not names:
            raise InputError("no loss is chosen; name at least one")
        return tuple(sorted(names, key=lambda name: (name != BASELINE, name != METHOD_OF_INTEREST, names.index(name))))

    def hyperparameters(self, preset: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a preset, by default the paper's, with the values that were given instead."""
        batch_sizes = {} if self.batch_size is None else {"batch_sizes": (self.batch_size,)}
        return {**(PAPER_PRESET if preset is None else preset), **batch_sizes, **self.given()}

    def given(self) -> dict[str, Any]:
        """Return the hyperparameters that were chosen."""
        names = ("learning_rates", "weight_decays", "epochs", "hidden_sizes")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def models(self, loss: str, folds: int) -> Models:
        """Return every combination of hyperparameters on every fold."""
        seeds, parameters = self.seeds_and_parameters(loss)
        values = self.hyperparameters()
        return Models.grid(
            folds=range(folds),
            seeds=seeds,
            learning_rates=values["learning_rates"],
            weight_decays=values["weight_decays"],
            parameters=parameters,
        )

    def seeds_and_parameters(self, loss: str) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
        """Return the seeds and the values of the tuned parameter to try.

        A loss without a parameter is tried with three seeds instead, as in the paper, so that no loss wins by having more models.
        """
        grid = self.parameters.get(loss, LOSSES[loss].grid)
        return ((self.seed,), grid) if grid else (tuple(range(self.seed, self.seed + 3)), None)

    def settings(
        self, loss: str, *, features: int, train_rows: int = 0, preset: Mapping[str, Any] | None = None, **more: Any
    ) -> TrainSettings:
        """Return what all networks of a loss share. The paper drops an incomplete last batch, where there is a complete one."""
        values = self.hyperparameters(preset)
        (batch_size,) = values["batch_sizes"]
        names = ("hidden_sizes", "activation", "epochs", "optimizer", "schedule")
        return train_settings(
            features=features,
            batch_size=batch_size,
            loss=loss,
            drop_last=self.preset == "paper" and train_rows >= batch_size,
            monitor=self.metric,
            **{name: values[name] for name in names if name in values},
            **more,
        )
