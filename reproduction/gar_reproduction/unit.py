"""A unit: one method, or variant of one, on one task; the smallest thing that is run and recorded."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal

from gar.search.fingerprints import fingerprint
from gar.stack import Models, Scaling, StackData, TrainSettings, batch_sizes

Keeps = Literal["scores", "curve", "moments"]
"""What its record holds besides scores: nothing more, the fitted curves, or means and deviations of predictions in training."""

_FORMAT = 1
_SETTINGS = (
    *("hidden_sizes", "activation", "feature_gates", "epochs", "batch_size", "drop_last"),
    *("optimizer", "momentum", "betas", "eps", "schedule", "milestones"),
    *("loss", "loss_options", "pretrain_epochs", "finetune_loss", "patience"),
)
"""Settings that make a unit what it is. One that is added later counts where it is not at its default, so that records which
were made before stay good."""
_IDLE = ("monitor", "keep_best", "keep_final")
"""Settings that change no score."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Unit:
    """What to run, as data.

    Args:
        experiment: its name.
        task: name of the table or curve.
        variant: name of the method, or of what is varied: also that of its record.
        title: the variant for people.
        load: gives the table and its folds. It is called only when something has to be computed.
        models: the grid.
        settings: of training.
        keeps: what its record holds.
        origin: gives sentences about the data, which go into the record.
    """

    experiment: str
    task: str
    variant: str
    title: str
    load: Callable[[], StackData]
    models: Models
    settings: TrainSettings
    keeps: Keeps = "scores"
    origin: Callable[[], Sequence[str]] = tuple

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.task}/{self.variant}"

    @property
    def plan(self) -> str:
        """Fingerprint of all that is known without data; a page is made with it alone."""
        return fingerprint((_FORMAT, self.keeps, _identity(self.settings), self.models.columns()))

    def key(self, data: StackData) -> str:
        """Fingerprint of everything that determines the numbers of its record. The version of this package is not part of it:
        records outlive releases."""
        return fingerprint((self.plan, _single_precision(data)))


def _single_precision(data: StackData) -> StackData:
    """As models see it. The last bits of means and deviations differ between machines; they must not make another unit."""
    folds = [replace(fold, features=_rounded(fold.features), labels=_rounded(fold.labels)) for fold in data.folds]
    return StackData(data.x.float(), data.y.float(), folds, sample_weight=data.sample_weight)


def _rounded(scaling: Any) -> Any:
    return None if scaling is None else Scaling(scaling.center.float(), scaling.scale.float())


def _identity(settings: TrainSettings) -> dict[str, Any]:
    return {
        field.name: getattr(settings, field.name)
        for field in fields(settings)
        if field.name in _SETTINGS or (field.name not in _IDLE and getattr(settings, field.name) != _default(field))
    }


def _default(field: Any) -> Any:
    return field.default if field.default is not MISSING else field.default_factory()


def flops(unit: Unit, data: StackData) -> float:
    """Multiplications and additions of all matrix products: twice the weights forward, four times backward, for each row.

    The losses' own work is not counted: little for most, more for those on pairs of features.
    """
    sizes = (data.inputs, *unit.settings.hidden_sizes, data.y.shape[1])
    weights = sum(one * other for one, other in pairwise(sizes))
    total = 0.0
    for fold in unit.models.fold.tolist():
        rows = data.folds[fold]
        trained = sum(batch_sizes(len(rows.train), unit.settings.batch_size, unit.settings.drop_last))
        total += 2.0 * weights * (3 * trained + len(rows.valid) + len(rows.test))
    return total * unit.settings.epochs
