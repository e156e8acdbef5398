"""Settings of training: what the models of a stack differ in (:class:`Models`) and what they share (:class:`TrainSettings`)."""

import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from gar.errors import InputError
from gar.registry import LOSSES, METRICS, LossSpec, register, registered
from gar.stack.data import StackData
from gar.stack.network import ACTIVATIONS, Activation, Layout
from gar.validation import check_choice, whole_number

Optimizer = Literal["sgd", "adam", "adamw"]
Schedule = Literal["constant", "multistep", "cosine"]
Metric = Literal["mae", "rmse", "pearson", "spearman", "r2"]


class Models:
    """Fold, seed and hyperparameters of each model: one value per model in every array, all of length ``G``.

    Random numbers belong to ``(seed, fold)``: the seed draws the initial weights, seed and fold the order of rows. So models that
    share both see the same batches, whatever else is in the stack.

    Args:
        fold: index of the fold that a model is trained on. Here and below, a single number stands for all models.
        seed: seed of initial weights and batches.
        learning_rate: learning rate of the first epoch, > 0.
        weight_decay: weight decay, >= 0.
        parameter: the tuned parameter of the loss; None is the loss's default, and the only choice for a loss without one.

    Example:
        >>> len(Models.grid(folds=range(5), learning_rates=(0.1, 0.01), parameters=(0.1, 1.0, 10.0)))
        30
    """

    def __init__(
        self,
        *,
        fold: ArrayLike = 0,
        seed: ArrayLike = 123,
        learning_rate: ArrayLike = 1e-2,
        weight_decay: ArrayLike = 0.0,
        parameter: ArrayLike | None = None,
    ) -> None:
        given = [fold, seed, learning_rate, weight_decay, *([] if parameter is None else [parameter])]
        arrays = _broadcast([np.asarray(value) for value in given])
        self.fold, self.seed = _whole_numbers(arrays[0], "fold"), _whole_numbers(arrays[1], "seed")
        self.learning_rate, self.weight_decay = (np.array(value, dtype=np.float64) for value in arrays[2:4])
        self.parameter = None if parameter is None else np.array(arrays[4], dtype=np.float64)
        self._check_ranges()

    @staticmethod
    def grid(
        *,
        folds: Iterable[int] = (0,),
        seeds: Iterable[int] = (123,),
        learning_rates: Iterable[float] = (1e-2,),
        weight_decays: Iterable[float] = (0.0,),
        parameters: Iterable[float] | None = None,
    ) -> "Models":
        """Return every combination; the last argument varies fastest."""
        axes: list[Iterable[float]] = [folds, seeds, learning_rates, weight_decays]
        rows = list(itertools.product(*axes, *([] if parameters is None else [parameters])))
        fold, seed, rate, decay, *rest = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Models(fold=fold, seed=seed, learning_rate=rate, weight_decay=decay, parameter=rest[0] if rest else None)

    def __len__(self) -> int:
        return len(self.fold)

    def __repr__(self) -> str:
        return f"Models({len(self)}: {len(set(self.fold.tolist()))} folds, {len(set(self.seed.tolist()))} seeds)"

    @property
    def sources(self) -> list[tuple[int, int]]:
        """Return ``(fold, seed)`` of every model: models that share both read the same batches."""
        return list(zip(self.fold.tolist(), self.seed.tolist(), strict=True))

    def columns(self) -> dict[str, np.ndarray]:
        """Return all that the models differ in, by name; read from the object, so that no attribute can be forgotten."""
        return {name: column for name, column in sorted(vars(self).items()) if column is not None}

    def identities(self) -> list[Hashable]:
        """Return one value per model, equal for models that give equal numbers with the same data and settings."""
        columns = self.columns()
        return [(*columns, *row) for row in zip(*(column.tolist() for column in columns.values()), strict=True)]

    def take(self, indices: Sequence[int] | np.ndarray) -> Self:
        """Return the models at these indices, in this order."""
        index = np.asarray(indices, dtype=np.int64)
        return type(self)(**{name: column[index] for name, column in self.columns().items()})

    def _check_ranges(self) -> None:
        if (bad := self.learning_rate[~((self.learning_rate > 0) & np.isfinite(self.learning_rate))]).size:
            raise InputError(f"learning_rate holds {bad[0]}; expected finite numbers > 0, such as 1e-2")
        if (bad := self.weight_decay[~((self.weight_decay >= 0) & np.isfinite(self.weight_decay))]).size:
            raise InputError(f"weight_decay holds {bad[0]}; expected finite numbers >= 0, such as 1e-4")
        if np.any(self.fold < 0) or np.any(self.seed < 0):
            raise InputError("fold and seed must not be negative; use 0 or more")


def _broadcast(arrays: list[np.ndarray]) -> list[np.ndarray]:
    shapes = {array.shape for array in arrays if array.ndim > 0}
    if any(len(shape) != 1 for shape in shapes) or len(shapes) > 1:
        raise InputError(f"settings of models have shapes {sorted(shapes)}; expected numbers, or lists of one length")
    return [np.array(array) for array in np.broadcast_arrays(*arrays, np.empty(shapes.pop() if shapes else 1))][:-1]


def _whole_numbers(values: np.ndarray, name: str) -> np.ndarray:
    whole = values.astype(np.int64)
    if not np.array_equal(whole, values):
        raise InputError(f"{name} holds {values.tolist()}; expected whole numbers")
    return whole


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of training that all models of a stack share; the defaults are the paper's protocol for tables.

    Args:
        hidden_sizes: widths of the hidden layers.
        activation: ``"elu"`` or ``"silu"``.
        feature_gates: also train a factor for every input, which switches off uninformative inputs; it moves faster than weights.
        epochs: passes over the training rows.
        batch_size: rows of a mini-batch; a fold with fewer rows is one batch, unless ``drop_last`` forbids it.
        drop_last: drop the incomplete last batch of an epoch.
        even_batches: make all batches a little smaller instead of having an incomplete last one: a batch of two rows says little
            about pairs.
        optimizer: ``"sgd"`` (momentum, coupled L2), ``"adam"`` (coupled L2) or ``"adamw"`` (decoupled decay).
        momentum: momentum of SGD.
        betas: betas of Adam and AdamW.
        eps: epsilon of Adam and AdamW.
        schedule: ``"constant"``, ``"multistep"`` (a tenth after each milestone) or ``"cosine"`` (to zero over all epochs).
        milestones: epochs after which ``"multistep"`` divides the learning rate by ten.
        loss: a name in :data:`gar.registry.LOSSES`.
        loss_options: further arguments of the loss, the same for all models.
        pretrain_epochs: for a loss of features alone, such as ``"rnc"``: how many epochs it trains the encoder, before
            ``finetune_loss`` trains everything. None is half of the epochs.
        finetune_loss: the loss of the second phase, with its default parameter.
        patience: stop a model whose ``monitor`` on the validation rows has not improved for this many epochs. None never stops.
        monitor: the metric that ``patience`` looks at.
        keep_best: keep the weights of the epoch with the best validation score by this metric.
        keep_final: keep the weights of a model's last epoch.
    """

    hidden_sizes: tuple[int, ...] = (16, 32, 16, 8)
    activation: Activation = "elu"
    feature_gates: bool = False
    epochs: int = 100
    batch_size: int = 256
    drop_last: bool = True
    even_batches: bool = False
    optimizer: Optimizer = "sgd"
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    schedule: Schedule = "multistep"
    milestones: tuple[int, ...] = (50, 75)
    loss: str = "gar"
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    pretrain_epochs: int | None = None
    finetune_loss: str = "mae"
    patience: int | None = None
    monitor: Metric = "mae"
    keep_best: Metric | None = None
    keep_final: bool = False

    def __post_init__(self) -> None:
        check_choice(self.activation, tuple(ACTIVATIONS), "activation")
        check_choice(self.optimizer, ("sgd", "adam", "adamw"), "optimizer")
        check_choice(self.schedule, ("constant", "multistep", "cosine"), "schedule")
        check_choice(self.loss, tuple(LOSSES), "loss")
        check_choice(self.finetune_loss, tuple(LOSSES), "finetune_loss")
        check_choice(self.monitor, tuple(METRICS), "monitor")
        if self.keep_best is not None:
            check_choice(self.keep_best, tuple(METRICS), "keep_best")
        self._convert_whole_numbers()
        if self.even_batches and self.drop_last:
            raise InputError("even_batches leaves no incomplete batch that drop_last could drop; set one of them to False")
        self._check_ranges()
        self._check_phases()
        self._check_loss_options()

    def __getstate__(self) -> dict[str, Any]:
        """Take registered losses along to other processes, whose own registry does not have them."""
        return {**vars(self), "_registered": registered((self.loss, self.finetune_loss))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, spec in state.pop("_registered", {}).items():
            register(name, spec)
        vars(self).update(state)

    @property
    def spec(self) -> LossSpec:
        """Return the registry's entry of the loss."""
        return LOSSES[self.loss]

    @property
    def is_two_phase(self) -> bool:
        """Return True if the loss looks at features alone, so that the head is trained by ``finetune_loss``."""
        return "pred" not in self.spec.inputs

    @property
    def first_phase_epochs(self) -> int:
        """Return the number of epochs that ``loss`` trains before ``finetune_loss`` takes over."""
        if not self.is_two_phase:
            return self.epochs
        return self.epochs // 2 if self.pretrain_epochs is None else self.pretrain_epochs

    def rate_factor(self, epoch: int) -> float:
        """Return the factor of the initial learning rate in an epoch, counted from 0.

        Example:
            >>> [TrainSettings(schedule="cosine", epochs=10).rate_factor(epoch) for epoch in (0, 5)]
            [1.0, 0.5]
        """
        if self.schedule == "multistep":
            return 0.1 ** sum(epoch >= milestone for milestone in self.milestones)
        if self.schedule == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * epoch / self.epochs))
        return 1.0

    def layout(self, data: StackData) -> Layout:
        """Return the layout of a network on these data."""
        return Layout((data.inputs, *self.hidden_sizes, data.y.shape[1]), self.activation, self.feature_gates)

    def _convert_whole_numbers(self) -> None:
        """Convert numpy integers, as a grid may hold them, to Python's: settings are written into records."""
        for name in ("epochs", "batch_size", "patience", "pretrain_epochs"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(value, name, least=0 if name == "pretrain_epochs" else 1))
        for name in ("hidden_sizes", "milestones"):
            values = getattr(self, name)
            if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
                raise InputError(f"{name}={values!r} is not a sequence of whole numbers; write ({values!r},)")
            least = 1 if name == "hidden_sizes" else 0
            object.__setattr__(self, name, tuple(whole_number(value, name, least=least) for value in values))

    def _check_ranges(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum={self.momentum} is out of range; expected 0 <= momentum < 1, such as 0.9")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(f"betas={self.betas} are out of range; expected two numbers in [0, 1), such as (0.9, 0.999)")
        if not self.eps > 0:
            raise InputError(f"eps={self.eps} is out of range; expected a number > 0, such as 1e-8")

    def _check_phases(self) -> None:
        if "pred" not in LOSSES[self.finetune_loss].inputs:
            raise InputError(f"finetune_loss={self.finetune_loss!r} does not train the head; choose a loss of predictions: 'mae'")
        if "features" in self.spec.inputs and not self.hidden_sizes:
            raise InputError(f"loss={self.loss!r} works on features, but hidden_sizes is empty; add a hidden layer: (16,)")
        if not self.is_two_phase and self.pretrain_epochs is not None:
            raise InputError(f"pretrain_epochs={self.pretrain_epochs} is for losses of features alone, not for {self.loss!r}")
        if self.first_phase_epochs > self.epochs:
            raise InputError(f"pretrain_epochs={self.pretrain_epochs} is out of range; expected 0 to epochs={self.epochs}")

    def _check_loss_options(self) -> None:
        for name in self.loss_options:
            if name not in (known := self.spec.options - {"nan_policy", "process_group", "generator"}):
                raise InputError(f"loss_options has {name!r}, but {self.loss!r} takes {', '.join(sorted(known)) or 'none'}")
