"""The robust aggregation of several losses into one: a power mean of exponent ``1/alpha``, or its logarithm."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from gar.errors import InputError
from gar.functional.formulas import TENSORS, log_power_mean
from gar.validation import can_be_read, check_choice, check_tensor, in_full_precision, parameter_like

Form = Literal["log", "exp"]


@in_full_precision
def aggregate(losses: Tensor | Sequence[Tensor], *, alpha: float | Tensor = 1.0, form: Form = "log", eps: float = 0.0) -> Tensor:
    r"""Join M losses robustly: :math:`\alpha \log \frac1M \sum_i L_i^{1/\alpha}` (paper, Eq. gar2).

    It equals :math:`\max_p \sum_i p_i \log L_i - \alpha\, \mathrm{KL}(p \| 1/M)`: the larger alpha, the more equal the
    attention. ``alpha=1`` is the log of the mean, ``math.inf`` the mean of logs (geometric mean), ``0`` the log of the maximum.

    Args:
        losses: M tensors of one shape, or one tensor whose first dimension is M; values >= 0. A negative one is an error, but
            for what ``eps`` makes up for, and while tracing.
        alpha: a number >= 0 (``math.inf`` too), or a tensor of the shape of one loss.
        form: ``"log"``, or ``"exp"`` for the power mean itself.
        eps: added to every loss. Losses of exactly zero count as the smallest positive number of their dtype.

    Returns:
        A tensor of the shape of one loss; in float32 for float16 and bfloat16. The log form is negative where the power mean is
        below one.

    Example:
        >>> aggregate([torch.tensor(1.0), torch.tensor(4.0)], alpha=math.inf, form="exp")
        tensor(2.)
    """
    check_choice(form, ("log", "exp"), "form")
    if (isinstance(losses, Tensor) and losses.ndim == 0) or len(losses) == 0:
        raise InputError("losses is empty or a single number; expected one loss or more: aggregate([loss_a, loss_b], alpha=1.0)")
    stacked = losses if isinstance(losses, Tensor) else _stacked(losses)
    if not stacked.is_floating_point():
        raise InputError(f"losses have dtype {stacked.dtype}; use floating-point tensors: loss.float()")
    stacked = stacked.to(torch.promote_types(stacked.dtype, torch.float32))
    _check_not_negative(stacked, eps)
    alpha = parameter_like(alpha, stacked.shape[1:], stacked, "alpha", open_end=False)
    smallest = torch.finfo(stacked.dtype).tiny  # a loss of exactly zero has a finite logarithm and no gradient
    logs = (stacked + eps).clamp(min=smallest).log().unbind(0)
    value: Tensor = log_power_mean(logs, alpha, xp=TENSORS)
    return value.exp() if form == "exp" else value


def _stacked(losses: Sequence[Tensor]) -> Tensor:
    for k, loss in enumerate(losses):
        check_tensor(loss, f"losses[{k}]")
        if loss.shape != losses[0].shape:
            raise InputError(f"losses[0] has shape {tuple(losses[0].shape)}, losses[{k}] {tuple(loss.shape)}; they must be equal")
    return torch.stack(list(losses))


def _check_not_negative(losses: Tensor, eps: float) -> None:
    """Raise for negative losses, whose logarithm would silently be that of the smallest number, without a gradient."""
    if not can_be_read(losses) or losses.numel() == 0:
        return
    lowest = float(losses.detach().min())
    if lowest + eps < 0:
        raise InputError(
            f"losses hold {lowest:g}; expected values >= 0. A loss that is a logarithm already is negative near a good fit: take "
            "GAR with form='exp'. If it is rounding that went below zero, eps=1e-6 lifts it"
        )
