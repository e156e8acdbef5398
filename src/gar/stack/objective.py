"""The gradient of a loss by predictions and features, for all models of a stack at once."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.functional import mae_loss, ranksim_loss
from gar.functional._closed_form import value_and_gradient
from gar.losses import GARLoss, RankSimLoss, registry
from gar.stack.passes import ModelSpan
from gar.validation import Columns, NanPolicy


class Labels(NamedTuple):
    """What a batch is compared with, by source or by model: ``target (..., rows, targets)``, weights ``(..., rows)`` or None, and
    ``distinct (..., rows)``, True for the first row of every label, where the loss needs it."""

    target: Tensor
    weight: Tensor | None
    distinct: Tensor | None

    def seen(self, view: Callable[[Tensor], Tensor]) -> "Labels":
        weight, distinct = (None if values is None else view(values) for values in (self.weight, self.distinct))
        return Labels(view(self.target), weight, distinct)


class Slopes(NamedTuple):
    """The loss of each model, ``(G,)``, and its gradients, None where it does not look."""

    loss: Tensor
    by_prediction: Tensor | None
    by_feature: Tensor | None

    @staticmethod
    def joined(parts: list["Slopes"]) -> "Slopes":
        """Of neighbours, one part after another."""
        loss, *gradients = (list(values) for values in zip(*parts, strict=True))
        by_prediction, by_feature = (None if values[0] is None else torch.cat(values) for values in gradients)
        return Slopes(torch.cat(loss), by_prediction, by_feature)


def check_parameter_of(name: str, parameter: object) -> None:
    if parameter is not None and registry[name].parameter is None:
        raise InputError(f"loss={name!r} has no parameter to tune, but models have one; leave parameter out")


class _Part(NamedTuple):
    """Neighbouring models, their loss, and how they see the labels of the sources."""

    models: slice
    loss: nn.Module
    view: Callable[[Tensor], Tensor]


class Objective:
    """One loss of the registry with one value of its parameter per model; other arguments are common.

    A loss on features works longest on what labels say of all pairs of rows. So it is asked run by span: the models of a run see
    one and the same labels, of which such a loss makes all it needs once. Any other loss is asked for all models together.
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
        self._name, self._parameter, self._options = name, parameter, dict(options or {}, nan_policy=nan_policy)
        self.spec = registry[name]
        check_parameter_of(name, parameter)
        self.needs_distinct = self.spec.loss is RankSimLoss
        self._value: Callable[..., Tensor] = self._ranksim if self.needs_distinct else self._plain
        self._parts = self._span_by_span(spans) if "features" in self.spec.inputs else [self._together(spans, device)]
        self._closed_form = _has_closed_form(self._parts[0].loss)

    def _span_by_span(self, spans: tuple[ModelSpan, ...]) -> list[_Part]:
        def expanded(span: ModelSpan) -> Callable[[Tensor], Tensor]:
            return lambda values: values[span.source].expand(span.stop - span.start, *values.shape[1:])

        return [_Part(models, self._loss(models), expanded(span)) for span in spans for models in [slice(span.start, span.stop)]]

    def _together(self, spans: tuple[ModelSpan, ...], device: torch.device) -> _Part:
        models = slice(0, spans[-1].stop)
        sources = torch.tensor([span.source for span in spans for _ in range(span.start, span.stop)], device=device)
        return _Part(models, self._loss(models), lambda values: values.index_select(0, sources))

    def _loss(self, models: slice) -> nn.Module:
        tuned = {} if self._parameter is None or self.spec.parameter is None else {self.spec.parameter: self._parameter[models]}
        return self.spec.loss(**self._options, **tuned)

    def keep(self, places: Tensor, spans: tuple[ModelSpan, ...]) -> "Objective":
        """The same loss for these models only, which form these spans."""
        parameter = None if self._parameter is None else self._parameter[places]
        options = dict(self._options)
        return Objective(self._name, parameter, spans, device=places.device, nan_policy=options.pop("nan_policy"), options=options)

    def __call__(self, predictions: Tensor, features: Tensor, labels: Labels) -> Slopes:
        """Predictions ``(G, rows, targets)``, features ``(G, rows, width)``, labels of every source."""
        parts = [
            self._slopes(part.loss, predictions[part.models], features[part.models], labels.seen(part.view)) for part in self._parts
        ]
        return parts[0] if len(parts) == 1 else Slopes.joined(parts)

    def _slopes(self, module: nn.Module, predictions: Tensor, features: Tensor, labels: Labels) -> Slopes:
        if self._closed_form and labels.weight is None:
            return self._gar(module, predictions, labels)
        leaves = {"pred": predictions, "features": features}
        used = [leaves[name].detach().requires_grad_() for name in self.spec.inputs]
        with torch.enable_grad():
            loss = self._value(module, used, labels)
            gradients = dict(zip(self.spec.inputs, torch.autograd.grad(loss.sum(), used), strict=True))
        return Slopes(loss.detach(), gradients.get("pred"), gradients.get("features"))

    def _gar(self, module: nn.Module, predictions: Tensor, labels: Labels) -> Slopes:
        """GAR comes with its gradient; asking for it without autograd halves the time of small batches."""
        assert isinstance(module, GARLoss)
        columns = Columns(predictions.mT, labels.target.mT, None, None)
        loss, slope = value_and_gradient(columns, module.alpha, module.settings)
        return Slopes(loss, slope.mT, None)

    def _plain(self, module: nn.Module, used: list[Tensor], labels: Labels) -> Tensor:
        first, *rest = used
        value: Tensor = module(first, labels.target, *rest, sample_weight=labels.weight)
        return value

    def _ranksim(self, module: nn.Module, used: list[Tensor], labels: Labels) -> Tensor:
        """RankSim keeps one random row of every label. Here it is the first of the shuffled batch, for all models that read it:
        a draw of its own would depend on a model's place in the stack."""
        predictions, features = used
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
