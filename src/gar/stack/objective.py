"""The gradient of a loss by predictions and features, for all models of a stack at once."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.functional import mae_loss, ranksim_loss
from gar.functional._closed_form import value_and_gradient
from gar.functional._inputs import Columns, NanPolicy
from gar.losses import GARLoss, RankSimLoss, registry


class Labels(NamedTuple):
    """What a batch is compared with: ``target (G, rows, targets)``, weights ``(G, rows)`` or None, and ``distinct (G, rows)``, True
    for the first row of every label, where the loss needs it."""

    target: Tensor
    weight: Tensor | None
    distinct: Tensor | None


class Slopes(NamedTuple):
    """The loss of each model, ``(G,)``, and its gradients, None where it does not look."""

    loss: Tensor
    by_prediction: Tensor | None
    by_feature: Tensor | None


def check_parameter_of(name: str, parameter: object) -> None:
    if parameter is not None and registry[name].parameter is None:
        raise InputError(f"loss={name!r} has no parameter to tune, but models have one; leave parameter out")


class Objective:
    """One loss of the registry with one value of its parameter per model; other arguments are common."""

    def __init__(
        self, name: str, parameter: Tensor | None, *, nan_policy: NanPolicy = "propagate", options: Mapping[str, Any] | None = None
    ) -> None:
        self._name, self._parameter, self._options = name, parameter, dict(options or {}, nan_policy=nan_policy)
        self.spec = registry[name]
        check_parameter_of(name, parameter)
        tuned = {} if parameter is None or self.spec.parameter is None else {self.spec.parameter: parameter}
        self._module = self.spec.loss(**self._options, **tuned)
        self.needs_distinct = isinstance(self._module, RankSimLoss)
        self._value: Callable[..., Tensor] = self._ranksim if self.needs_distinct else self._plain
        self._closed_form = _has_closed_form(self._module)

    def keep(self, places: Tensor) -> "Objective":
        """The same loss for these models only."""
        parameter = None if self._parameter is None else self._parameter[places]
        options = dict(self._options)
        return Objective(self._name, parameter, nan_policy=options.pop("nan_policy"), options=options)

    def __call__(self, predictions: Tensor, features: Tensor, labels: Labels) -> Slopes:
        """Predictions ``(G, rows, targets)``, features ``(G, rows, width)``."""
        if self._closed_form and labels.weight is None:
            return self._gar(predictions, labels)
        leaves = {"pred": predictions, "features": features}
        used = [leaves[name].detach().requires_grad_() for name in self.spec.inputs]
        with torch.enable_grad():
            loss = self._value(used, labels)
            gradients = dict(zip(self.spec.inputs, torch.autograd.grad(loss.sum(), used), strict=True))
        return Slopes(loss.detach(), gradients.get("pred"), gradients.get("features"))

    def _gar(self, predictions: Tensor, labels: Labels) -> Slopes:
        """GAR comes with its gradient; asking for it without autograd halves the time of small batches."""
        module = self._module
        assert isinstance(module, GARLoss)
        columns = Columns(predictions.mT, labels.target.mT, None, None)
        loss, slope = value_and_gradient(columns, module.alpha, module.settings)
        return Slopes(loss, slope.mT, None)

    def _plain(self, used: list[Tensor], labels: Labels) -> Tensor:
        first, *rest = used
        value: Tensor = self._module(first, labels.target, *rest, sample_weight=labels.weight)
        return value

    def _ranksim(self, used: list[Tensor], labels: Labels) -> Tensor:
        """RankSim keeps one random row of every label. Here it is the first of the shuffled batch, for all models that read it:
        a draw of its own would depend on a model's place in the stack."""
        predictions, features = used
        module = self._module
        assert isinstance(module, RankSimLoss)
        common: dict[str, Any] = {"sample_weight": labels.weight, "nan_policy": module.nan_policy}
        regulariser = ranksim_loss(features, labels.target, interpolation=module.interpolation, mask=labels.distinct, **common)
        return mae_loss(predictions, labels.target, **common) + module.gamma * regulariser


def _has_closed_form(module: nn.Module) -> bool:
    """Whether this is GAR over the batch of this process, every label counting."""
    if not isinstance(module, GARLoss):
        return False
    return module.process_group is None and module.settings.pairs == "batch" and module.nan_policy == "propagate"


def first_of_each_label(target: Tensor, weight: Tensor | None = None) -> Tensor:
    """True ``(..., rows)`` where no earlier row that counts has the same labels ``(..., rows, targets)``."""
    same = (target.unsqueeze(-2) == target.unsqueeze(-3)).all(-1)
    if weight is not None:
        same &= weight.unsqueeze(-2) > 0
    return ~same.tril(-1).any(-1)
