"""What all kinds of models have in common: they are trained with a loss on all folds, and leave winners behind.

:mod:`gar.app.compare.networks` and :mod:`gar.app.compare.trees` are the kinds there are. Adding one is writing such an object and naming
it in :mod:`gar.app.compare.tables`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from gar.app.compare.options import Options
from gar.app.compare.preparing import Prepared
from gar.app.models import Model
from gar.losses import registry
from gar.search import RunContext, Selection
from gar.search.selection import Measured
from gar.stack import Models

Self = TypeVar("Self", bound="Curves")


class Curves(Measured, Protocol):
    """Metrics of models after every epoch or round, of which some can be taken."""

    def take(self: Self, places: np.ndarray) -> Self: ...


class Trial(NamedTuple):
    """All models of one family and loss, and what became of them."""

    loss: str
    family: str
    title: str
    models: Models
    history: Curves
    seconds: float
    """Spent on them, in earlier runs of the same command too."""

    @property
    def parameter(self) -> str | None:
        """Name of the loss's parameter."""
        return registry[self.loss].parameter

    @property
    def failed(self) -> int:
        """How many models diverged."""
        return int((self.history.failed_epoch >= 0).sum())

    def about(self, prepared: Prepared, metric: str) -> Mapping[str, Any]:
        """What is kept with a saved model."""
        return {"loss": self.loss, "title": self.title, "judged_by": metric, "table": prepared.source.name}


class Winners(NamedTuple):
    """The winners of all folds as a model, and what their errors were made of: ``(winners, epochs)`` by component, if known."""

    model: Model
    components: Mapping[str, np.ndarray]


class Family(Protocol):
    """A kind of model."""

    @property
    def name(self) -> str:
        """What the option calls it."""

    @property
    def losses(self) -> tuple[str, ...]:
        """What it can be trained with."""

    def title_of(self, loss: str) -> str:
        """What the method is called."""

    def check(self) -> None:
        """Raise an error if something is not installed."""

    def attempt(self, loss: str, prepared: Prepared, options: Options, run: RunContext) -> Trial | None:
        """Train all models of a loss; None if time was up before all were done. What is done stays in the records."""

    def train_again(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        """Train the winners once more: searches keep no models, since thousands would fill the disk."""

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        """How it is trained, for the reader of a report."""
