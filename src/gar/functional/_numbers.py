"""Three ways to calculate with a few numbers, behind one face, so that every formula is written once.

A formula over the moments of a batch is a few dozen operations. On Python floats (one model, one target) that takes
microseconds, on numpy arrays (a stack of models on the CPU) little more, and on torch tensors it can be differentiated, traced
and left on another device. ``where``, ``log`` and their like come from the member; plain arithmetic needs no help.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

Number = Any  # float, numpy array or torch tensor, as the system in use has it


class Numbers(Protocol):
    """The functions that the formulas need. ``columns`` stands for the last axis of arrays; floats have none."""

    def where(self, condition: Any, yes: Number, no: Number) -> Number: ...
    def exp(self, x: Number) -> Number: ...
    def expm1(self, x: Number) -> Number: ...
    def log(self, x: Number) -> Number: ...
    def log1p(self, x: Number) -> Number: ...
    def constant(self, x: Number) -> Number: ...
    def largest(self, values: Sequence[Number]) -> Number: ...
    def sum_columns(self, x: Number) -> Number: ...
    def to_columns(self, x: Number) -> Number: ...
    def is_finite(self, x: Number) -> bool: ...


class Floats:
    """One model with one target."""

    exp = staticmethod(math.exp)
    expm1 = staticmethod(math.expm1)
    log = staticmethod(math.log)
    log1p = staticmethod(math.log1p)
    is_finite = staticmethod(math.isfinite)

    def where(self, condition: bool, yes: float, no: float) -> float:
        return yes if condition else no

    def constant(self, x: float) -> float:
        return x

    def largest(self, values: Sequence[float]) -> float:
        return math.nan if any(map(math.isnan, values)) else max(values)

    def sum_columns(self, x: float) -> float:
        return x

    def to_columns(self, x: float) -> float:
        return x


class Arrays:
    """A stack of models or several targets, in numpy; torch differs only in the two methods below."""

    def __init__(self, module: Any) -> None:
        self.where, self.exp, self.expm1 = module.where, module.exp, module.expm1
        self.log, self.log1p, self.maximum, self.isfinite = module.log, module.log1p, module.maximum, module.isfinite

    def constant(self, x: Number) -> Number:
        return x

    def largest(self, values: Sequence[Number]) -> Number:
        result = values[0]
        for value in values[1:]:
            result = self.maximum(result, value)
        return result

    def sum_columns(self, x: Number) -> Number:
        return x.sum(-1)

    def to_columns(self, x: Number) -> Number:
        return x[..., None]

    def is_finite(self, x: Number) -> bool:
        return bool(self.isfinite(x).all())


class Tensors(Arrays):
    """Tensors on any device, with derivatives; equal maxima share theirs evenly."""

    def largest(self, values: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(values)).amax(0)

    def constant(self, x: Tensor) -> Tensor:
        return x.detach()


FLOATS = Floats()
ARRAYS = Arrays(np)
TENSORS = Tensors(torch)
