"""SGD, Adam and AdamW over a table of weights ``(G, numbers)``, with a learning rate and decay per model.

The formulas are those of :mod:`torch.optim`. A step may cover a part of the columns (the encoder without its head); what gets no
gradient is left as it is, and counts its steps from its own first one.
"""

import math
from collections import defaultdict
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gar.stack.settings import TrainSettings


class Step(NamedTuple):
    """What a step applies to: rows and columns of the table, their gradient (which may be changed), and the learning rate
    and decay of each model, ``(models, 1)``. ``number`` counts the steps of these columns, from 1."""

    models: slice
    columns: slice
    gradient: Tensor
    rate: Tensor
    decay: Tensor
    number: int


class StackedOptimizer(Protocol):
    """Something that improves a table in place, and may keep tables of its own."""

    def step(self, table: Tensor, step: Step) -> None: ...

    def keep(self, places: Tensor) -> None:
        """Go on with these models only."""


class StackedSGD:
    """Momentum and coupled L2: ``g += decay w``, ``m = momentum m + g``, ``w -= rate m``."""

    def __init__(self, table: Tensor, *, momentum: float) -> None:
        self._momentum = momentum
        self._average = torch.zeros_like(table)

    def step(self, table: Tensor, step: Step) -> None:
        weight, average = table[step.models, step.columns], self._average[step.models, step.columns]
        step.gradient.addcmul_(weight, step.decay)
        torch.add(step.gradient, average, alpha=self._momentum, out=average)
        weight.addcmul_(average, step.rate, value=-1.0)

    def keep(self, places: Tensor) -> None:
        self._average = self._average[places]


_LONG_ROW = 4096
"""From so many numbers per model on, a call of its own for each model costs less than further passes over memory."""


class StackedAdam:
    """Adam with coupled L2, or AdamW with decoupled decay, both with bias correction."""

    def __init__(self, table: Tensor, *, betas: tuple[float, float], eps: float, decoupled: bool) -> None:
        self._betas, self._eps, self._decoupled = betas, eps, decoupled
        self._mean, self._square = torch.zeros_like(table), torch.zeros_like(table)

    def step(self, table: Tensor, step: Step) -> None:
        tables = table, self._mean, self._square
        weight, mean, square = (values[step.models, step.columns] for values in tables)
        if table.device.type == "cpu" and weight.shape[1] >= _LONG_ROW:
            self._step_by_rows(weight, step, mean, square)
        else:
            self._step_all(weight, step, mean, square)

    def _step_by_rows(self, weight: Tensor, step: Step, mean: Tensor, square: Tensor) -> None:
        """PyTorch's own kernel, which passes over memory once. Models with equal settings share a call."""
        kernel: Any = torch._fused_adamw_ if self._decoupled else torch._fused_adam_
        first, second = self._betas
        common = {"beta1": first, "beta2": second, "eps": self._eps, "amsgrad": False, "maximize": False}
        number = torch.tensor(float(step.number))
        columns = [values.unbind(0) for values in (weight, step.gradient, mean, square)]
        alike = defaultdict(list)
        for row, setting in enumerate(zip(step.rate.flatten().tolist(), step.decay.flatten().tolist(), strict=True)):
            alike[setting].append(row)
        for (rate, decay), rows in alike.items():
            tensors = [[column[row] for row in rows] for column in columns]
            kernel(*tensors, [], [number] * len(rows), lr=rate, weight_decay=decay, **common)

    def _step_all(self, weight: Tensor, step: Step, mean: Tensor, square: Tensor) -> None:
        """All models at once: many passes over memory, but few calls."""
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

    def keep(self, places: Tensor) -> None:
        self._mean, self._square = self._mean[places], self._square[places]


def build_optimizer(settings: TrainSettings, table: Tensor) -> StackedOptimizer:
    if settings.optimizer == "sgd":
        return StackedSGD(table, momentum=settings.momentum)
    return StackedAdam(table, betas=settings.betas, eps=settings.eps, decoupled=settings.optimizer == "adamw")


def rate_factor(settings: TrainSettings, epoch: int) -> float:
    """What the initial learning rate is multiplied with in an epoch, counted from 0."""
    if settings.schedule == "multistep":
        return 0.1 ** sum(epoch >= milestone for milestone in settings.milestones)
    if settings.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * epoch / settings.epochs))
    return 1.0
