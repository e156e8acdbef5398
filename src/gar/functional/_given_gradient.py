"""Values that come with their gradient: how a closed form takes the place of autograd in eager mode."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gar.errors import InputError
from gar.validation import FULL, has_tangent

Pull = Callable[[Tensor], Tensor]
"""From a gradient by the value to one by ``x``, where the second is no multiple of the first."""

Solve = Callable[[Tensor], tuple[Tensor, Tensor | Pull]]
Plain = Callable[[Tensor], Tensor]


def with_gradient(x: Tensor, solve: Solve, plain: Plain | None) -> Tensor:
    """``solve(x)`` gives a value per model and its gradient by ``x``; ``plain(x)`` is the same value for autograd.

    The gradient is used as it is. Only a second or a forward-mode derivative goes back to ``plain``; None says that there is
    none. Half precision is ``solve(x.float())``: its gradient is rounded after it was multiplied by what comes from outside, since
    the factor of a gradient scaler is infinite in float16.
    """
    if has_tangent(x):
        return _or_refuse(plain, "forward-mode")(x)
    if x.requires_grad and torch.is_grad_enabled():
        x = x if x.dtype in FULL else x.float()
        return _GivenGradient.apply(x, solve, plain)  # type: ignore[no-any-return, no-untyped-call]
    with torch.no_grad():
        return solve(x)[0]


def _or_refuse(plain: Plain | None, kind: str) -> Plain:
    if plain is None:
        raise InputError(f"{kind} derivatives are not available with process_group; compute them on one process")
    return plain


class _GivenGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, solve: Solve, plain: Plain | None) -> Tensor:
        value, gradient = solve(x)
        ctx.save_for_backward(x, gradient if isinstance(gradient, Tensor) else None)
        ctx.pull, ctx.plain = gradient, plain
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        x, gradient = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return ctx.pull(outer) if gradient is None else _scaled(gradient, outer, x.dtype), None, None
        plain = _or_refuse(ctx.plain, "second")
        return torch.autograd.grad(plain(x), x, outer, create_graph=True)[0], None, None


def _scaled(gradient: Tensor, outer: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient times one number per model, in this dtype; as it is where that is a plain 1, as after ``loss.backward()``."""
    if outer.ndim == 0 and outer.device.type == "cpu" and outer.item() == 1.0:
        return gradient
    return gradient.to(dtype) * outer.reshape(outer.shape + (1,) * (gradient.ndim - outer.ndim)).to(dtype)
