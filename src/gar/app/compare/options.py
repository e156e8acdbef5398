"""What to try, how to train it, and how it is judged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gar.errors import InputError
from gar.estimators.presets import PAPER_PRESET, train_settings
from gar.losses import registry
from gar.metrics import METRICS
from gar.registry import FAMILIES
from gar.stack import Models, TrainSettings
from gar.validation import check_choice

NETWORKS = "mlp"
PAPER_LOSSES = tuple(name for name in registry if name != "mae_pearson")
"""The methods of the paper's tables. MAE-Pearson is one of its two curves only."""

DEFAULT_PRESET: Mapping[str, Any] = {
    "learning_rates": (2e-2, 5e-3),
    "weight_decays": (1e-1, 1e-3),
    "batch_sizes": (32,),
    "hidden_sizes": (128, 128),
    "activation": "elu",
    "epochs": 100,
    "optimizer": "adamw",
    "schedule": "cosine",
}
"""Plain networks of the paper's kind, and what trains them well on small tables. It is the losses that are compared, nine of them
with all their grids, and that should take minutes."""

LOSS_OPTIONS: Mapping[str, Mapping[str, Any]] = {"mae_pearson": {"balance": "code"}}
"""MAE-Pearson as in the authors' code: by the text, the error counts negative while the correlation is, and training diverges."""

_NO_PARAMETERS: Mapping[str, tuple[float, ...]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a comparison; None is what the recipe says.

    Args:
        losses: names of :data:`gar.losses.registry`; None is the paper's nine.
        families: kinds of models, of :data:`gar.registry.FAMILIES`. Boosted trees have a small grid of their own (depth and rate),
            and rounds by early stopping; of the options below, they know ``folds``, ``seed`` and ``metric``.
        parameters: values to try of the tuned parameter, by loss; others try the registry's grid.
        preset: ``"paper"`` takes the paper's recipe: SGD, its grids, networks and schedule, raw labels.
        learning_rates: to try.
        weight_decays: to try.
        epochs: passes over the training rows.
        batch_size: rows of a mini-batch.
        hidden_sizes: widths of the hidden layers, or ``"paper"``: the paper's by number of features.
        folds: how many parts the rows that are not tested are cut into.
        seed: of the split and of the networks.
        metric: what the winners are judged by.

    Example:
        >>> len(Options().models("gar", folds=5)), len(Options().models("mae", folds=5))
        (60, 60)
    """

    losses: tuple[str, ...] | None = None
    families: tuple[str, ...] = (NETWORKS,)
    parameters: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: _NO_PARAMETERS)
    preset: str | None = None
    learning_rates: tuple[float, ...] | None = None
    weight_decays: tuple[float, ...] | None = None
    epochs: int | None = None
    batch_size: int | None = None
    hidden_sizes: str | tuple[int, ...] | None = None
    folds: int = 5
    seed: int = 123
    metric: str = "mae"

    def __post_init__(self) -> None:
        check_choice(self.metric, METRICS, "metric")
        if self.preset is not None:
            check_choice(self.preset, ("paper",), "preset")
        for name in (*self.chosen(PAPER_LOSSES), *self.parameters):
            check_choice(name, tuple(registry), "loss")
        if not self.families:
            raise InputError(f"no kind of model is chosen; name at least one of {', '.join(FAMILIES)}")
        for name in self.families:
            check_choice(name, tuple(FAMILIES), "model")
        for name, values in self.parameters.items():
            if registry[name].parameter is None or not values:
                raise InputError(f"{name} is given the values {list(values)}, but has no such parameter; leave it out")
        if self.folds < 2:
            raise InputError(f"folds={self.folds} is too few; use 2 or more")
        if not 0 <= self.seed < 2**31:
            raise InputError(f"seed={self.seed} is out of range; use a number from 0 to {2**31 - 1}")
        self.models("mae", folds=self.folds)
        for name in self.chosen(PAPER_LOSSES):
            self.settings(name, features=1)

    def chosen(self, default: Iterable[str]) -> tuple[str, ...]:
        """The losses in the order in which they are trained: the baseline and GAR first, in case that time runs out."""
        names = list(dict.fromkeys(default if self.losses is None else self.losses))
        if not names:
            raise InputError("no loss is chosen; name at least one")
        return tuple(sorted(names, key=lambda name: (name != "mae", name != "gar", names.index(name))))

    def recipe(self, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A recipe with what was chosen otherwise; None is that of the preset."""
        if base is None:
            base = PAPER_PRESET if self.preset == "paper" else DEFAULT_PRESET
        batch_sizes = None if self.batch_size is None else (self.batch_size,)
        own = {name: getattr(self, name) for name in ("learning_rates", "weight_decays", "epochs", "hidden_sizes")}
        return {**base, **{name: value for name, value in {**own, "batch_sizes": batch_sizes}.items() if value is not None}}

    @property
    def scale_labels(self) -> bool:
        """Whether labels are standardised; the paper's are raw."""
        return self.preset is None

    def models(self, loss: str, *, folds: int) -> Models:
        """Every combination on every fold."""
        seeds, parameters = self.tries(loss)
        recipe = self.recipe()
        return Models.grid(
            folds=range(folds),
            seeds=seeds,
            learning_rates=recipe["learning_rates"],
            weight_decays=recipe["weight_decays"],
            parameters=parameters,
        )

    def tries(self, loss: str) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
        """Seeds, and values of the parameter. A loss without a parameter is tried with three seeds instead, as in the paper, so
        that no loss wins by having more tries."""
        grid = self.parameters.get(loss, registry[loss].grid)
        return ((self.seed,), grid) if grid else (tuple(range(self.seed, self.seed + 3)), None)

    def settings(self, loss: str, *, features: int, train_rows: int = 0) -> TrainSettings:
        """How all of them are trained. The paper drops an incomplete last batch, where there is a complete one."""
        recipe = self.recipe()
        (batch_size,) = recipe["batch_sizes"]
        shared = {name: recipe[name] for name in ("hidden_sizes", "activation", "epochs", "optimizer", "schedule")}
        drop_last = self.preset == "paper" and train_rows >= batch_size
        return train_settings(
            features=features,
            batch_size=batch_size,
            loss=loss,
            loss_options=LOSS_OPTIONS.get(loss),
            drop_last=drop_last,
            monitor=self.metric,
            **shared,
        )
