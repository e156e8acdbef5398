"""GAR's value and gradient in closed form: the quick road of eager mode.

The gradient by a prediction is a combination of three vectors, ``w_i (a sign(e_i) + b e_bar_i + c f_bar_i)``, whose
coefficients come from the moments. So a batch costs two passes for the moments and one for the gradient, whatever the number
of components, and nothing of size n is kept for the backward pass but the gradient itself.
"""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gar.distributed import gather
from gar.functional._components import GARSettings, column_components, finished
from gar.functional._moments import Moments, bessel, centred, is_correlation_defined, merge, moments_of, rounding_unit
from gar.functional._numbers import ARRAYS, FLOATS, TENSORS, Number, Numbers
from gar.functional.aggregation import attention, log_power_mean
from gar.validation import Columns, bad_labels, bad_labels_elsewhere, check_labels

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup

Join = Callable[[list[Number]], list[Number]]
"""From sums over the columns of this process to sums over those of all."""


def value_and_gradient(
    columns: Columns, alpha: float | Tensor, settings: GARSettings, *, group: "ProcessGroup | None" = None
) -> tuple[Tensor, Tensor]:
    """The loss, shape ``(...)``, and its gradient by ``columns.pred``, of the shape of that.

    With a ``group`` it is the loss of the joined batch of all ranks, and its gradient by the rows of this one.
    """
    batch, share = _centred_batch(columns, settings, group)
    xp, m, share, alpha = _few_numbers(batch.moments, share, alpha)
    if group is None and settings.nan_policy == "raise" and not xp.is_finite(m.mean_target):
        check_labels(columns.target)
    solve = _solve_quietly if xp is ARRAYS else _solve
    join = None if group is None else _join(columns, settings, group)
    value, coefficients = solve(m, share, alpha, settings, rounding_unit(columns.pred), join, xp)
    return batch.as_result(value), batch.combine(*coefficients)


def joined_components(columns: Columns, settings: GARSettings, group: "ProcessGroup") -> list[Tensor]:
    """The components of the joined batch of all ranks, shape ``(...)`` each, neither weighted nor aggregated."""
    batch, share = _centred_batch(columns, settings, group)
    xp, m, share, _ = _few_numbers(batch.moments, share, 1.0)
    with np.errstate(all="ignore"):
        means = _means_over_columns(m, share, settings, rounding_unit(columns.pred), _join(columns, settings, group), xp)[1]
    return [batch.as_result(mean) for mean in means]


def _centred_batch(
    columns: Columns, settings: GARSettings, group: "ProcessGroup | None"
) -> tuple["_CentredBatch | _SmallBatches", Tensor | None]:
    """The batch, centred at the means of the group's if pairs are made across it, and the shares of its columns."""
    if group is None and settings.pairs == "batch" and _is_stack_of_small(columns):
        return _SmallBatches(columns), columns.share
    batch = _CentredBatch(columns)
    if group is None or settings.pairs == "targets":
        return batch, columns.share
    batch.recentre(_merged(batch.moments, columns, settings, group))
    return batch, None  # a column that is empty here may be filled elsewhere


def traced_value(columns: Columns, alpha: float | Tensor, settings: GARSettings) -> Tensor:
    """The same for torch.compile: functional operations, fused into one pass for the value and one for the gradient."""
    known = Columns(columns.pred.detach(), columns.target, columns.weight, columns.share)
    pred, target, error = centred(known)
    m = moments_of(pred, target, error, known)
    m = Moments(*(field if isinstance(field, Tensor) else torch.full_like(m.error, field) for field in m))
    share = _counted(m) if columns.share is None else columns.share
    value, factors = _solve(m, share, alpha, settings, rounding_unit(known.pred), None, TENSORS)
    rows = [factor.reshape(m.error.shape) for factor in factors]
    shifts = [error.guess, error.rest, pred.guess, pred.rest]
    return _TracedGradient.apply(columns.pred, columns.target, columns.weight, value, torch.stack(rows + shifts))  # type: ignore


class _TracedGradient(torch.autograd.Function):
    """A value, and the gradient from its few coefficients: what is saved is small, the rest is fused into the backward pass."""

    @staticmethod
    def forward(ctx: Any, pred: Tensor, target: Tensor, weight: Tensor | None, value: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(pred, target, weight, numbers)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None, None, None]:
        pred, target, weight, numbers = ctx.saved_tensors
        by_sign, by_error, by_pred, *shifts = numbers.unsqueeze(-1)
        error = pred - target
        scale = outer.reshape(outer.shape + (1,) * (pred.ndim - outer.ndim))
        gradient = scale * by_sign * error.sign() + scale * by_error * ((error - shifts[0]) - shifts[1])
        gradient = gradient + scale * by_pred * ((pred - shifts[2]) - shifts[3])
        return gradient if weight is None else weight * gradient, None, None, None, None


_LARGE = 16384
"""Above so many values memory is used again, since fresh pages cost more than arithmetic; below, a plain operation is quicker."""


class _CentredBatch:
    """Centred errors and predictions of a batch, worked on in place: three arrays of the size of the predictions at most.

    A single column is laid out flat, ``(n,)``, and its moments are floats; otherwise they are tensors ``(..., columns)``.
    """

    def __init__(self, columns: Columns) -> None:
        pred, target, self.weight = columns[:3]
        self.single = pred.ndim == 1 and pred.device.type == "cpu"
        size = float(pred.shape[-1]) if self.weight is None else self._total(self.weight)
        self._divisor, self._unit = size + (size == 0), rounding_unit(pred)
        spare, mean_target, target_square = self._centre(target)
        self.error = pred - target
        self.sign = self.error.sign()
        absolute = self._dot(self.error, self.sign)
        _, mean_error, error_square = self._centre(self.error, out=self.error)
        self.pred, mean_pred, pred_square = self._centre(pred, out=spare if pred.numel() > _LARGE else None)
        cross = self._dot(self.pred, self.error)
        self.moments = Moments(size, mean_pred, mean_target, mean_error, absolute, error_square, pred_square, target_square, cross)

    def _centre(self, values: Tensor, out: Tensor | None = None) -> tuple[Tensor, Number, Number]:
        """Values minus their mean, that mean, and the sum of squares that is left."""
        mean = self._mean(values)
        if out is None:
            centred = values - _factor(mean)
        else:
            centred = values.sub_(_factor(mean)) if out is values else torch.sub(values, _factor(mean), out=out)
        square = self._dot(centred, centred) if self.single else None
        if square is None or abs(mean) * self._unit > 1e-4 * (square / self._divisor) ** 0.5:
            # A mean is a rounded number. Where it is large against the spread, the rounding shows: take that out as well.
            rest = self._mean(centred)
            centred.sub_(_factor(rest))
            mean, square = mean + rest, self._dot(centred, centred)
        return centred, mean, square

    def _mean(self, values: Tensor) -> Number:
        return self._total(values if self.weight is None else self.weight * values) / self._divisor

    def _total(self, values: Tensor) -> Number:
        return values.sum().item() if self.single else values.sum(-1)

    def _dot(self, one: Tensor, other: Tensor) -> Number:
        one = one if self.weight is None else self.weight * one
        return torch.dot(one, other).item() if self.single else torch.linalg.vecdot(one, other)

    def recentre(self, merged: Moments) -> None:
        """Centre at the means of a larger batch that this one is part of, and take over its moments."""
        for values, shift in (
            (self.error, merged.mean_error - self.moments.mean_error),
            (self.pred, merged.mean_pred - self.moments.mean_pred),
        ):
            values.sub_(shift if isinstance(shift, float) else _factor(shift).to(values.dtype))
        self.moments = merged

    def as_result(self, value: Number) -> Tensor:
        """One number per model."""
        if self.single:
            return torch.full((), value, dtype=self.error.dtype)
        return torch.as_tensor(value, dtype=self.error.dtype, device=self.error.device)

    def _per_column(self, coefficient: Number) -> Tensor:
        return torch.as_tensor(coefficient).to(self.error).reshape(*self.error.shape[:-1], 1)

    def combine(self, by_sign: Number, by_error: Number, by_pred: Number) -> Tensor:
        """The gradient, built in the place of the errors."""
        if self.single:
            result = self.error.mul_(by_error).add_(self.pred, alpha=by_pred).add_(self.sign, alpha=by_sign)
        else:
            by_sign, by_error, by_pred = map(self._per_column, (by_sign, by_error, by_pred))
            result = self.error.mul_(by_error).addcmul_(self.pred, by_pred).addcmul_(self.sign, by_sign)
        return result if self.weight is None else result.mul_(self.weight)


_FEW_ROWS = 48
"""Up to so many rows the time of a step is that of calls, not of arithmetic. It is below 59 because records of the sine were made
with a last batch of that size, and the two ways differ in the last bit."""


def _is_stack_of_small(columns: Columns) -> bool:
    """Models with few rows each. It must not matter how many models: their results may not depend on that."""
    pred = columns.pred
    few = pred.ndim > 1 and 0 < pred.shape[-1] <= _FEW_ROWS and columns.weight is None
    return few and pred.device.type == "cpu" and pred.dtype is torch.float32 and columns.target.dtype is torch.float32


class _SmallBatches:
    """The same as :class:`_CentredBatch`, in numpy, whose calls cost less, and in double precision, in which numbers of single
    precision need be centred only once."""

    @np.errstate(all="ignore")
    def __init__(self, columns: Columns) -> None:
        pred, target = (values.detach().double().numpy() for values in columns[:2])
        error = pred - target
        self._sign = np.sign(error)
        centred = np.stack([pred, target, error])
        means = centred.mean(-1, keepdims=True)
        centred -= means
        self._pred, _, self._error = centred
        pred_square, target_square, error_square = _dots(centred, centred)
        absolute, cross = _dots(error, self._sign), _dots(self._pred, self._error)
        squares = error_square, pred_square, target_square
        self.moments = Moments._make([float(error.shape[-1]), *means[..., 0], absolute, *squares, cross])

    def as_result(self, value: np.ndarray) -> Tensor:
        """One number per model."""
        return torch.as_tensor(value, dtype=torch.float32)

    @np.errstate(all="ignore")
    def combine(self, by_sign: np.ndarray, by_error: np.ndarray, by_pred: np.ndarray) -> Tensor:
        self._error *= by_error[..., None]
        self._pred *= by_pred[..., None]
        self._sign *= by_sign[..., None]
        self._error += self._pred
        self._error += self._sign
        return torch.from_numpy(self._error).float()


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("...n,...n->...", one, other))


def _factor(per_column: Number) -> Number:
    """A number per column as something that meets ``(..., columns, n)``; a float as it is."""
    return per_column if isinstance(per_column, float) else per_column.unsqueeze(-1)


def _merged(local: Moments, columns: Columns, settings: GARSettings, group: "ProcessGroup") -> Moments:
    """Moments of the joined batch: one exchange of nine numbers a column, merged in double precision."""
    merged = merge(Moments(*_gathered(_table(local), columns, settings, group).unbind(1)))
    return Moments(*map(float, merged)) if isinstance(local.error, float) else merged


def _join(columns: Columns, settings: GARSettings, group: "ProcessGroup") -> Join | None:
    """How means over columns become those of all ranks. Only with ``pairs="targets"`` are rows of other ranks other columns: no
    pair crosses a rank, only the mean over rows does."""
    if settings.pairs == "batch":
        return None
    return functools.partial(_joined_sums, columns=columns, settings=settings, group=group)


def _joined_sums(sums: list[Number], columns: Columns, settings: GARSettings, group: "ProcessGroup") -> list[Number]:
    found = _gathered(torch.stack([torch.as_tensor(one) for one in sums]), columns, settings, group).sum(0)
    return list(found if isinstance(sums[0], Tensor) else found.numpy())


def _gathered(numbers: Tensor, columns: Columns, settings: GARSettings, group: "ProcessGroup") -> Tensor:
    """``numbers`` of all ranks, the first of which say how many there are of something.

    A rank that stopped at a bad label would leave the others waiting for it. So it takes part, with NaN in the place of that first
    number, which never is NaN otherwise, and then all stop.
    """
    if settings.nan_policy != "raise":
        return gather(numbers, group)
    if bad_labels(columns.target):
        numbers[0] = math.nan
    found = gather(numbers, group)
    if bool(found[:, 0].isnan().any()):
        check_labels(columns.target)
        raise bad_labels_elsewhere()
    return found


def _table(m: Moments) -> Tensor:
    """All moments in one tensor of double precision, the first dimension being the nine fields."""
    if isinstance(m.error, float):
        return torch.tensor(m, dtype=torch.float64)
    size = m.size if isinstance(m.size, Tensor) else torch.full_like(m.error, m.size)
    return torch.stack([size, *m[1:]]).double()


def _few_numbers(m: Moments, share: Tensor | None, alpha: float | Tensor) -> tuple[Numbers, Moments, Number, Number]:
    """Moments, shares of columns and alpha in the cheapest system of numbers; on the CPU in double precision."""
    if isinstance(m.error, float):
        return FLOATS, m, _counted(m) if share is None else float(share), float(alpha)
    per_model = alpha.double().numpy() if isinstance(alpha, Tensor) and alpha.device.type == "cpu" else alpha
    if isinstance(m.error, np.ndarray):
        return ARRAYS, m, np.ones_like(m.error) if share is None else share.double().numpy(), per_model
    if m.error.device.type != "cpu":
        m = Moments(*_table(m))
        return TENSORS, m, _counted(m) if share is None else share, alpha
    m = Moments(*_table(m).numpy())
    return ARRAYS, m, _counted(m) if share is None else share.double().numpy(), per_model


def _counted(m: Moments) -> Number:
    """One for every column that holds anything."""
    return (m.size > 0) * 1.0


def _solve(
    m: Moments, share: Number, alpha: Number, settings: GARSettings, unit: float, join: Join | None, xp: Numbers
) -> tuple[Number, tuple[Number, Number, Number]]:
    """From moments to the loss of each model, and to the coefficients of its gradient in each column."""
    part, components = over_columns_of(m, share, settings, unit, join, xp)
    logs = [xp.log(component) for component in components]
    value = log_power_mean(logs, alpha, xp=xp)
    slopes = [p / component for p, component in zip(attention(logs, alpha, xp=xp), components, strict=True)]
    if settings.form == "exp":
        value = xp.exp(value)
        slopes = [value * slope for slope in slopes]
    return value, coefficients(m, part, slopes, settings, unit, xp)


_solve_quietly = np.errstate(all="ignore")(_solve)  # what is not finite shows in the result and needs no warning


def over_columns_of(
    m: Moments, share: Number, settings: GARSettings, unit: float, join: Join | None, xp: Numbers
) -> tuple[Number, list[Number]]:
    """Each column's part in the mean over columns, and the finished components of the models."""
    part, means = _means_over_columns(m, share, settings, unit, join, xp)
    return part, finished(means, settings)


def _means_over_columns(
    m: Moments, share: Number, settings: GARSettings, unit: float, join: Join | None, xp: Numbers
) -> tuple[Number, list[Number]]:
    """The same with components as they are."""
    totals = [xp.sum_columns(value * share) for value in column_components(m, settings, unit=unit, xp=xp)]
    count = xp.sum_columns(share)
    if join is not None:
        count, *totals = join([count, *totals])
    count = count + (count == 0)
    return share / xp.to_columns(count), [total / count for total in totals]


def coefficients(
    m: Moments, part: Number, slopes: list[Number], settings: GARSettings, unit: float, xp: Numbers
) -> tuple[Number, Number, Number]:
    """What sign, centred error and centred prediction are multiplied with, per column.

    The derivatives by ``f_i``, with the letters of :mod:`gar.functional._moments`: of ``A / n``, ``sign(e_i) / n``; of
    ``D / n``, ``2 e_bar_i / n``; of ``1 - rho``, ``(e_bar_i - (Q / F) f_bar_i) / sqrt(F V)``, the part of the error that is
    orthogonal to the prediction. Each is multiplied by the slope of the loss by its component.
    """
    by_sign = by_error = by_pred = 0.0 * part
    size = m.size + (m.size == 0)
    for name, weight, slope in zip(settings.components, settings.all_weights, slopes, strict=True):
        height = weight * xp.to_columns(slope) * part
        if name == "mae":
            by_sign = height / size
        elif name == "diff":
            by_error = by_error + 2.0 * height / size
        else:
            defined = is_correlation_defined(m, eps=settings.eps, unit=unit)
            pred, target = xp.where(defined, m.pred, 1.0), xp.where(defined, m.target, 1.0)
            height = xp.where(defined, height * bessel(m, settings.correction) / (pred**0.5 * target**0.5), 0.0)
            by_error, by_pred = by_error + height, -height * m.cross / pred
    return by_sign, by_error, by_pred
