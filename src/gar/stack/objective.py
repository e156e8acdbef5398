"""The gradient of a loss by predictions and features, for all models of a stack at once."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.registry import LOSSES
from gar.stack.passes import ModelSpan
from gar.validation import NanPolicy


class Labels(NamedTuple):
    """What a batch is compared with, by source or by model: ``target (..., rows, targets)``, weights ``(..., rows)`` or None,
    ``distinct (..., rows)``, True for the first row of every label, if the loss needs it, and ``groups (..., rows)`` or None."""

    target: Tensor
    weight: Tensor | None
    distinct: Tensor | None
    groups: Tensor | None = None

    def seen(self, view: Callable[[Tensor], Tensor]) -> "Labels":
        return Labels(view(self.target), *(None if values is None else view(values) for values in self[1:]))


class Slopes(NamedTuple):
    """The loss of each model, ``(G,)``, and its gradients, None by what it does not depend on."""

    loss: Tensor
    by_prediction: Tensor | None
    by_feature: Tensor | None

    @staticmethod
    def joined(parts: list["Slopes"]) -> "Slopes":
        """Join the parts of neighbouring models."""
        loss, *gradients = (list(values) for values in zip(*parts, strict=True))
        by_prediction, by_feature = (None if values[0] is None else torch.cat(values) for values in gradients)
        return Slopes(torch.cat(loss), by_prediction, by_feature)


class _LossPart(NamedTuple):
    """Neighbouring models, their loss, and how they see the labels of the sources."""

    models: slice
    loss: nn.Module
    view: Callable[[Tensor], Tensor]


class Objective:
    """One loss of the registry with one value of its parameter per model; other arguments are common.

    A loss on features takes most of its time for labels of all pairs of rows. So it is evaluated span by span: the models of a span
    share their labels, whose pairs are then computed once. Any other loss is evaluated for all models together, or one by one if it
    is not ``stacked``.
    """

    def __init__(
        self,
        name: str,
        parameter: Tensor | None,
        spans: tuple[ModelSpan, ...],
        *,
        device: torch.device,
        nan_policy: NanPolicy = "propagate",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._name, self._parameter, self._nan_policy, self._options = name, parameter, nan_policy, dict(options or {})
        self.spec = LOSSES[name]
        self._parts = self._split(spans, device)
        of_predictions = self.spec.stacked and self.spec.inputs == ("pred",)
        self._has_gradient = of_predictions and hasattr(self._parts[0].loss, "value_and_gradient")

    def _split(self, spans: tuple[ModelSpan, ...], device: torch.device) -> list[_LossPart]:
        if self.spec.stacked and "features" not in self.spec.inputs:
            models = slice(0, spans[-1].stop)
            sources = torch.tensor([span.source for span in spans for _ in range(span.start, span.stop)], device=device)
            return [_LossPart(models, self._loss(models), lambda values: values.index_select(0, sources))]
        if not self.spec.stacked:
            spans = tuple(ModelSpan(k, k + 1, span.source) for span in spans for k in range(span.start, span.stop))

        def expanded(span: ModelSpan) -> Callable[[Tensor], Tensor]:
            return lambda values: values[span.source].expand(span.stop - span.start, *values.shape[1:])

        return [
            _LossPart(models, self._loss(models), expanded(span)) for span in spans for models in [slice(span.start, span.stop)]
        ]

    def _loss(self, models: slice) -> nn.Module:
        value: float | Tensor | None = None if self._parameter is None else self._parameter[models]
        if isinstance(value, Tensor) and not self.spec.stacked:
            value = float(value)
        return self.spec.build(value, nan_policy=self._nan_policy, **self._options)

    def keep(self, index: Tensor, spans: tuple[ModelSpan, ...]) -> "Objective":
        """Return the same loss for these models only, which form these spans."""
        parameter = None if self._parameter is None else self._parameter[index]
        return Objective(self._name, parameter, spans, device=index.device, nan_policy=self._nan_policy, options=self._options)

    def __call__(self, predictions: Tensor, features: Tensor, labels: Labels) -> Slopes:
        """Evaluate predictions ``(G, rows, targets)`` and features ``(G, rows, width)`` against the labels of every source."""
        parts = [
            self._slopes(part.loss, predictions[part.models], features[part.models], labels.seen(part.view)) for part in self._parts
        ]
        return parts[0] if len(parts) == 1 else Slopes.joined(parts)

    def _slopes(self, module: nn.Module, predictions: Tensor, features: Tensor, labels: Labels) -> Slopes:
        if self._has_gradient:  # twice as fast for small batches as autograd
            options = {} if labels.groups is None else {"groups": labels.groups}
            loss, gradient = module.value_and_gradient(predictions, labels.target, sample_weight=labels.weight, **options)  # type: ignore[operator]
            return Slopes(loss, gradient, None)
        leaves = {"pred": predictions, "features": features}
        used = [leaves[name].detach().requires_grad_() for name in self.spec.inputs]
        with torch.enable_grad():
            loss = self._value(module, used, labels)
            gradients = dict(zip(self.spec.inputs, torch.autograd.grad(loss.sum(), used), strict=True))
        return Slopes(loss.detach(), gradients.get("pred"), gradients.get("features"))

    def _value(self, module: nn.Module, used: list[Tensor], labels: Labels) -> Tensor:
        """Call the loss. A row that represents its label is the first of the shuffled batch, for all models that read it: a random
        draw would depend on a model's index in the stack."""
        given = {"sample_weight": labels.weight, "representatives": labels.distinct, "groups": labels.groups}
        options = {name: values for name, values in given.items() if values is not None}
        self.spec.check_takes(options)
        first, target, *rest = used[0], labels.target, *used[1:]
        if self.spec.stacked:
            loss: Tensor = module(first, target, *rest, **options)
        else:
            options = {name: values[0] for name, values in options.items()}
            loss = module(first[0], target[0], *(values[0] for values in rest), **options).unsqueeze(0)
        if loss.shape != first.shape[:1]:
            raise InputError(
                f"loss={self._name!r} gave shape {tuple(loss.shape)} for {len(first)} models; expected one value per model, "
                f"({len(first)},): reduce the last two dimensions only, or register it with stacked=False"
            )
        return loss


def first_of_each_label(target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return True ``(..., rows)`` where no earlier row that counts has the same labels ``(..., rows, targets)``."""
    same = (target.unsqueeze(-2) == target.unsqueeze(-3)).all(-1)
    if weight is not None:
        same &= weight.unsqueeze(-2) > 0
    return ~same.tril(-1).any(-1)
