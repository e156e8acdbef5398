"""SGD, Adam and AdamW over a table of weights ``(G, numbers)``, with a learning rate and decay per model.

The formulas are those of :mod:`torch.optim`. A step may cover a part of the columns (the encoder without its head); what gets no
gradient is left as it is, and counts its steps from its own first one.
"""

import math
from collections import defaultdict
from collections.abc import Hashable
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


_Alike = tuple[list[int], list[list[Tensor]]]

_LONG_ROW = 4096
"""From so many numbers per model on, a call of its own for each model costs less than further passes over memory."""


class StackedAdam:
    """Adam with coupled L2, or AdamW with decoupled decay, both with bias correction."""

    def __init__(self, table: Tensor, *, betas: tuple[float, float], eps: float, decoupled: bool) -> None:
        self._betas, self._eps, self._decoupled = betas, eps, decoupled
        self._mean, self._square = torch.zeros_like(table), torch.zeros_like(table)
        self._alike: dict[Hashable, list[_Alike]] = {}

    def step(self, table: Tensor, step: Step) -> None:
        if table.device.type == "cpu" and step.gradient.shape[1] >= _LONG_ROW:
            self._step_by_rows(table, step)
        else:
            self._step_all(table, step)

    def _step_by_rows(self, table: Tensor, step: Step) -> None:
        """PyTorch's own kernel, which passes over memory once. Models with equal settings share a call."""
        kernel: Any = torch._fused_adamw_ if self._decoupled else torch._fused_adam_
        first, second = self._betas
        common = {"beta1": first, "beta2": second, "eps": self._eps, "amsgrad": False, "maximize": False}
        number = torch.tensor(float(step.number))
        rates, decays = step.rate.flatten().tolist(), step.decay.flatten().tolist()
        for rows, tensors in self._rows_alike(table, step, rates, decays):
            kernel(*tensors, [], [number] * len(rows), lr=rates[rows[0]], weight_decay=decays[rows[0]], **common)

    def _rows_alike(self, table: Tensor, step: Step, rates: list[float], decays: list[float]) -> list[_Alike]:
        """Rows with one rate and decay, and their weights, gradients and averages one by one. They are the same in every step: a
        schedule changes all rates by one factor, and a block has its gradients always in the same place."""
        key = step.models.start, step.columns.start, step.gradient.data_ptr()
        if key not in self._alike:
            alike = defaultdict(list)
            for row, setting in enumerate(zip(rates, decays, strict=True)):
                alike[setting].append(row)
            weight, mean, square = self._part(table, step)
            columns = [values.unbind(0) for values in (weight, step.gradient, mean, square)]
            self._alike[key] = [(rows, [[column[row] for row in rows] for column in columns]) for rows in alike.values()]
        return self._alike[key]

    def _part(self, table: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """Weights and averages that a step is about."""
        weight, mean, square = (values[step.models, step.columns] for values in (table, self._mean, self._square))
        return weight, mean, square

    def _step_all(self, table: Tensor, step: Step) -> None:
        """All models at once: many passes over memory, but few calls."""
        weight, mean, square = self._part(table, step)
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
        self._alike.clear()


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
