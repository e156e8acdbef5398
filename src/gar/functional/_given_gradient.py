"""Values that come with their gradient: how a closed form takes the place of autograd in eager mode."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gar.errors import InputError

Pull = Callable[[Tensor], Tensor]
"""From a gradient by the value to one by ``x``, where the second is no multiple of the first."""

Solve = Callable[[Tensor], tuple[Tensor, Tensor | Pull]]
Plain = Callable[[Tensor], Tensor]


def with_gradient(x: Tensor, solve: Solve, plain: Plain | None) -> Tensor:
    """``solve(x)`` gives a value per model and its gradient by ``x``; ``plain(x)`` is the same value for autograd.

    The gradient is used as it is. Only a second derivative goes back to ``plain``; None says that there is none.
    """
    if x.requires_grad and torch.is_grad_enabled():
        return _GivenGradient.apply(x, solve, plain)  # type: ignore[no-any-return, no-untyped-call]
    with torch.no_grad():
        return solve(x)[0]


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
            return ctx.pull(outer) if gradient is None else _scaled(gradient, outer), None, None
        if ctx.plain is None:
            raise InputError("second derivatives are not available with process_group; compute them on one process")
        return torch.autograd.grad(ctx.plain(x), x, outer, create_graph=True)[0], None, None


def _scaled(gradient: Tensor, outer: Tensor) -> Tensor:
    """The gradient times one number per model; as it is where that is a plain 1, as after ``loss.backward()``."""
    if outer.ndim == 0 and outer.device.type == "cpu" and outer.item() == 1.0:
        return gradient
    return gradient * outer.reshape(outer.shape + (1,) * (gradient.ndim - outer.ndim)).to(gradient.dtype)
