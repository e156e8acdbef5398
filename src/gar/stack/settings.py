"""What a training run is: everything that all models of a stack have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gar.errors import InputError, whole_number
from gar.metrics import METRICS
from gar.registry import LOSSES as registry
from gar.registry import LossSpec, register, registered
from gar.stack.network import ACTIVATIONS, Activation
from gar.validation import check_choice

Optimizer = Literal["sgd", "adam", "adamw"]
Schedule = Literal["constant", "multistep", "cosine"]
Metric = Literal["mae", "rmse", "pearson", "spearman", "r2"]


LATER = {"later": True}
"""Marks a setting that came after the first records were written. At its default, it makes no other run of an old one."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How to train; the defaults are the paper's protocol for tables.

    Args:
        hidden_sizes: widths of the hidden layers.
        activation: ``"elu"`` or ``"silu"``.
        gates: learn a factor for every input, too; it moves faster than weights, and turns off inputs that tell nothing.
        epochs: passes over the training rows.
        batch_size: rows of a mini-batch; a fold with fewer rows is one batch, unless ``drop_last`` forbids it.
        drop_last: leave out the incomplete last batch of an epoch.
        even_batches: instead of an incomplete last batch, make all a little smaller: a batch of two rows tells nothing of pairs.
        optimizer: ``"sgd"`` (momentum, coupled L2), ``"adam"`` (coupled L2) or ``"adamw"`` (decoupled decay).
        momentum: of SGD.
        betas: of Adam and AdamW.
        eps: of Adam and AdamW.
        schedule: ``"constant"``, ``"multistep"`` (a tenth after each milestone) or ``"cosine"`` (to zero over all epochs).
        milestones: epochs after which ``"multistep"`` divides the learning rate by ten.
        loss: a name of :data:`gar.losses.registry`.
        loss_options: further arguments of the loss, for all models alike.
        pretrain_epochs: for a loss of features alone, such as ``"rnc"``: how many epochs it trains the encoder, before
            ``finetune_loss`` trains everything. None is half of the epochs.
        finetune_loss: the loss of the second phase, with its default parameter.
        patience: stop a model whose ``monitor`` on the validation rows has not improved for so many epochs. None never stops.
        monitor: the metric that ``patience`` looks at.
        keep_best: keep the weights of the epoch that is best on the validation rows by this metric.
        keep_final: keep the weights of a model's last epoch.
    """

    hidden_sizes: tuple[int, ...] = (16, 32, 16, 8)
    activation: Activation = field(default="elu", metadata=LATER)
    gates: bool = field(default=False, metadata=LATER)
    epochs: int = 100
    batch_size: int = 256
    drop_last: bool = True
    even_batches: bool = field(default=False, metadata=LATER)
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
        check_choice(self.loss, tuple(registry), "loss")
        check_choice(self.finetune_loss, tuple(registry), "finetune_loss")
        check_choice(self.monitor, METRICS, "monitor")
        if self.keep_best is not None:
            check_choice(self.keep_best, METRICS, "keep_best")
        self._take_whole_numbers()
        if self.even_batches and self.drop_last:
            raise InputError("even_batches leaves no incomplete batch that drop_last could drop; set one of them to False")
        self._check_numbers()
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
        return registry[self.loss]

    @property
    def is_two_phase(self) -> bool:
        """Whether the loss looks at features alone, so that the head needs another."""
        return "pred" not in self.spec.inputs

    @property
    def first_phase(self) -> int:
        """How many epochs ``loss`` trains before ``finetune_loss`` takes over."""
        if not self.is_two_phase:
            return self.epochs
        return self.epochs // 2 if self.pretrain_epochs is None else self.pretrain_epochs

    def _take_whole_numbers(self) -> None:
        """Numbers of numpy, as a grid may hold them, become those of Python: settings are written into records."""
        for name in ("epochs", "batch_size", "patience", "pretrain_epochs"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(value, name, least=0 if name == "pretrain_epochs" else 1))
        for name in ("hidden_sizes", "milestones"):
            values = getattr(self, name)
            if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
                raise InputError(f"{name}={values!r} is not a sequence of whole numbers; write ({values!r},)")
            least = 1 if name == "hidden_sizes" else 0
            object.__setattr__(self, name, tuple(whole_number(value, name, least=least) for value in values))

    def _check_numbers(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum={self.momentum} is out of range; expected 0 <= momentum < 1, such as 0.9")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(f"betas={self.betas} are out of range; expected two numbers in [0, 1), such as (0.9, 0.999)")
        if not self.eps > 0:
            raise InputError(f"eps={self.eps} is out of range; expected a number > 0, such as 1e-8")

    def _check_loss_options(self) -> None:
        known = self.spec.options - {"nan_policy", "process_group", "generator"}
        for name in self.loss_options:
            if name not in known:
                raise InputError(f"loss_options has {name!r}, but {self.loss!r} takes {', '.join(sorted(known)) or 'none'}")

    def _check_phases(self) -> None:
        if "pred" not in registry[self.finetune_loss].inputs:
            raise InputError(f"finetune_loss={self.finetune_loss!r} does not train the head; choose a loss of predictions: 'mae'")
        if "features" in self.spec.inputs and not self.hidden_sizes:
            raise InputError(f"loss={self.loss!r} works on features, but hidden_sizes is empty; add a hidden layer: (16,)")
        if self.pretrain_epochs is None:
            return
        if not self.is_two_phase:
            raise InputError(f"pretrain_epochs={self.pretrain_epochs} is for losses of features alone, not for {self.loss!r}")
        if not 0 <= self.pretrain_epochs <= self.epochs:
            raise InputError(f"pretrain_epochs={self.pretrain_epochs} is out of range; expected 0 to epochs={self.epochs}")
