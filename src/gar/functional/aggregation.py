"""The robust aggregation of several losses into one: a power mean of exponent ``1/alpha``, or its logarithm."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.functional._numbers import TENSORS, Number, Numbers
from gar.validation import check_choice, check_tensor, in_full_precision, is_traced, parameter_like

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
    for place, loss in enumerate(losses):
        check_tensor(loss, f"losses[{place}]")
        if loss.shape != losses[0].shape:
            raise InputError(
                f"losses[0] has shape {tuple(losses[0].shape)}, losses[{place}] {tuple(loss.shape)}; they must be equal"
            )
    return torch.stack(list(losses))


def _check_not_negative(losses: Tensor, eps: float) -> None:
    """A logarithm of less than nothing would silently be that of the smallest number, without a gradient."""
    if is_traced() or losses.numel() == 0:
        return
    lowest = float(losses.detach().min())
    if lowest + eps < 0:
        raise InputError(
            f"losses hold {lowest:g}; expected values >= 0. A loss that is a logarithm already is negative near a good fit: take "
            "GAR with form='exp'. If it is rounding that went below zero, eps=1e-6 lifts it"
        )


def log_power_mean(logs: Sequence[Number], alpha: Number, *, xp: Numbers) -> Number:
    """``alpha log mean exp(logs / alpha)``, exact for every alpha from 0 to infinity.

    The largest logarithm is taken out first, as a constant, so nothing overflows; ``log1p`` and ``expm1`` keep the digits
    that ``log(1 + tiny)`` would lose for large alpha.
    """
    if _is_usual(alpha):
        return _smooth(logs, alpha, xp)
    if isinstance(alpha, (float, int)):
        return xp.largest(logs) if alpha == 0 else _mean(logs)
    usual = (alpha > 0) & (alpha < math.inf)
    value = _smooth(logs, xp.where(usual, alpha, 1.0), xp)
    return xp.where(usual, value, xp.where(alpha == 0, xp.largest(logs), _mean(logs)))


def attention(logs: Sequence[Number], alpha: Number, *, xp: Numbers) -> list[Number]:
    """Derivative of :func:`log_power_mean` by each logarithm: the maximising ``p`` of the KL form. Sums to one."""
    largest = xp.largest(logs)
    below = [log - largest for log in logs]
    if _is_usual(alpha):
        weights = [xp.exp(b / alpha) for b in below]
    elif isinstance(alpha, (float, int)):
        weights = [_weight_at_limit(b, alpha) for b in below]
    else:
        usual = (alpha > 0) & (alpha < math.inf)
        safe = xp.where(usual, alpha, 1.0)
        at_limit = [xp.where(alpha == 0, _weight_at_limit(b, 0.0), _weight_at_limit(b, math.inf)) for b in below]
        weights = [xp.where(usual, xp.exp(b / safe), limit) for b, limit in zip(below, at_limit, strict=True)]
    total = sum(weights)
    return [weight / total for weight in weights]


def _is_usual(alpha: Number) -> bool:
    """Whether alpha is known to be nowhere at a limit. To look into a tensor would make a GPU wait, so it never is of one."""
    if isinstance(alpha, (float, int)):
        return 0 < alpha < math.inf
    return isinstance(alpha, np.ndarray) and bool(((alpha > 0) & (alpha < math.inf)).all())


def _weight_at_limit(below: Number, alpha: float) -> Number:
    """All alike for infinite alpha; for alpha 0 only the largest, which is ``below`` itself by nothing. NaN stays NaN."""
    return below * 0.0 + 1.0 if alpha else (below == 0) * 1.0 + (below - below)


def _smooth(logs: Sequence[Number], alpha: Number, xp: Numbers) -> Number:
    largest = xp.constant(xp.largest(logs))
    return largest + alpha * xp.log1p(_mean([xp.expm1((log - largest) / alpha) for log in logs]))


def _mean(values: Sequence[Number]) -> Number:
    return sum(values[1:], values[0]) / len(values)
