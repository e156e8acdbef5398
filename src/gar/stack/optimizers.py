"""SGD, Adam and AdamW over the weights ``(G, numbers)`` of a stack, with a learning rate and weight decay per model.

The formulas are those of :mod:`torch.optim`. A step may cover a part of the columns (the encoder without its head); columns without
a gradient stay unchanged, and count their steps from their own first one.
"""

import math
from collections import defaultdict
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gar.stack.settings import TrainSettings


class Step(NamedTuple):
    """What a step applies to: rows and columns of the weights, their gradient (which may be overwritten), and the learning rate
    and weight decay of each model, ``(models, 1)``. ``number`` counts the steps of these columns, from 1."""

    models: slice
    columns: slice
    gradient: Tensor
    rate: Tensor
    decay: Tensor
    number: int


def build_optimizer(settings: TrainSettings, weights: Tensor) -> "StackedSGD | StackedAdam":
    """Return the optimizer that the settings name."""
    if settings.optimizer == "sgd":
        return StackedSGD(weights, momentum=settings.momentum)
    return StackedAdam(weights, betas=settings.betas, eps=settings.eps, decoupled=settings.optimizer == "adamw")


class StackedSGD:
    """Momentum and coupled L2: ``g += decay w``, ``m = momentum m + g``, ``w -= rate m``."""

    def __init__(self, weights: Tensor, *, momentum: float) -> None:
        self._momentum = momentum
        self._average = torch.zeros_like(weights)

    def step(self, weights: Tensor, step: Step) -> None:
        """Update the weights in place."""
        weight, average = weights[step.models, step.columns], self._average[step.models, step.columns]
        step.gradient.addcmul_(weight, step.decay)
        torch.add(step.gradient, average, alpha=self._momentum, out=average)
        weight.addcmul_(average, step.rate, value=-1.0)

    def select(self, indices: Tensor) -> None:
        """Continue with the models at these indices only."""
        self._average = self._average[indices]


_Group = tuple[list[int], list[list[Tensor]]]

_LONG_ROW = 4096
"""From this many numbers per model on, a kernel call per model is cheaper than further passes over memory."""


class StackedAdam:
    """Adam with coupled L2, or AdamW with decoupled decay, both with bias correction."""

    def __init__(self, weights: Tensor, *, betas: tuple[float, float], eps: float, decoupled: bool) -> None:
        self._betas, self._eps, self._decoupled = betas, eps, decoupled
        self._mean, self._square = torch.zeros_like(weights), torch.zeros_like(weights)
        self._groups: dict[Hashable, list[_Group]] = {}

    def step(self, weights: Tensor, step: Step) -> None:
        if weights.device.type == "cpu" and step.gradient.shape[1] >= _LONG_ROW:
            self._step_by_rows(weights, step)
        else:
            self._step_all(weights, step)

    def _step_by_rows(self, weights: Tensor, step: Step) -> None:
        """Call PyTorch's fused kernel, which passes over memory once. Models with equal hyperparameters share a call."""
        kernel: Any = torch._fused_adamw_ if self._decoupled else torch._fused_adam_
        first, second = self._betas
        common = {"beta1": first, "beta2": second, "eps": self._eps, "amsgrad": False, "maximize": False}
        number = torch.tensor(float(step.number))
        rates, decays = step.rate.flatten().tolist(), step.decay.flatten().tolist()
        for rows, tensors in self._grouped_rows(weights, step, rates, decays):
            kernel(*tensors, [], [number] * len(rows), lr=rates[rows[0]], weight_decay=decays[rows[0]], **common)

    def _grouped_rows(self, weights: Tensor, step: Step, rates: list[float], decays: list[float]) -> list[_Group]:
        """Return rows with one rate and decay, and their weights, gradients and averages one by one.

        Groups are cached: a schedule changes all rates by one factor, and a block's gradients always have the same memory.
        """
        key = step.models.start, step.columns.start, step.gradient.data_ptr()
        if key not in self._groups:
            groups = defaultdict(list)
            for row, hyperparameters in enumerate(zip(rates, decays, strict=True)):
                groups[hyperparameters].append(row)
            weight, mean, square = self._part(weights, step)
            columns = [values.unbind(0) for values in (weight, step.gradient, mean, square)]
            self._groups[key] = [(rows, [[column[row] for row in rows] for column in columns]) for rows in groups.values()]
        return self._groups[key]

    def _part(self, weights: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights and averages that a step applies to."""
        weight, mean, square = (values[step.models, step.columns] for values in (weights, self._mean, self._square))
        return weight, mean, square

    def _step_all(self, weights: Tensor, step: Step) -> None:
        """Update all models at once: many passes over memory, but few calls."""
        weight, mean, square = self._part(weights, step)
        gradient = step.gradient
        if self._decoupled:
            weight.mul_(1.0 - step.rate * step.decay)
        else:
            gradient.addcmul_(weight, step.decay)
        first, second = self._betas
        mean.lerp_(gradient, 1.0 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        root = square.sqrt().div_(math.sqrt(1.0 - second**step.number)).add_(self._eps)
        weight.addcmul_(torch.div(mean, root, out=root), step.rate / (1.0 - first**step.number), value=-1.0)

    def select(self, indices: Tensor) -> None:
        self._mean, self._square = self._mean[indices], self._square[indices]
        self._groups.clear()
