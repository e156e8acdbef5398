"""Values that come with their gradient: how a closed form replaces autograd in eager mode."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gar.errors import InputError
from gar.validation import FULL, has_tangent

VectorJacobian = Callable[[Tensor], Tensor]
"""From the gradient by the value to the gradient by ``x``, for a loss where the second is no multiple of the first."""

Solve = Callable[[Tensor], tuple[Tensor, Tensor | VectorJacobian]]
Plain = Callable[[Tensor], Tensor]


def with_custom_backward(x: Tensor, solve: Solve, plain: Plain | None) -> Tensor:
    """Return the value of ``solve(x)``, whose backward pass uses the gradient that ``solve`` returned.

    Args:
        x: what the value is differentiated by. Half precision is computed as ``solve(x.float())``: its gradient is rounded only
            after it was multiplied by the incoming gradient, since the factor of a gradient scaler is infinite in float16.
        solve: returns one value per model, and its gradient by ``x``.
        plain: the same value as operations for autograd, used for second and forward-mode derivatives; None if there are none.
    """
    if has_tangent(x):
        return _or_refuse(plain, "forward-mode")(x)
    if x.requires_grad and torch.is_grad_enabled():
        x = x if x.dtype in FULL else x.float()
        return _CustomBackward.apply(x, solve, plain)  # type: ignore[no-any-return, no-untyped-call]
    with torch.no_grad():
        return solve(x)[0]


def _or_refuse(plain: Plain | None, kind: str) -> Plain:
    if plain is None:
        raise InputError(f"{kind} derivatives are not available with process_group; compute them on one process")
    return plain


class _CustomBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, solve: Solve, plain: Plain | None) -> Tensor:
        value, gradient = solve(x)
        ctx.plain = plain
        if isinstance(gradient, Tensor):
            ctx.save_for_backward(x, gradient)  # and nowhere else: then it becomes the gradient of a leaf without a copy
        else:
            ctx.save_for_backward(x, None)
            ctx.vector_jacobian = gradient
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        x, gradient = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return ctx.vector_jacobian(outer) if gradient is None else _scaled(gradient, outer, x.dtype), None, None
        plain = _or_refuse(ctx.plain, "second")
        return torch.autograd.grad(plain(x), x, outer, create_graph=True)[0], None, None


def _scaled(gradient: Tensor, outer: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply the gradient by one number per model, in this dtype; return it as it is if that is 1, as of ``loss.backward()``."""
    if outer.ndim == 0 and outer.device.type == "cpu" and outer.item() == 1.0:
        return gradient
    return gradient.to(dtype) * outer.reshape(outer.shape + (1,) * (gradient.ndim - outer.ndim)).to(dtype)
