"""GAR's nine moments, by every way in which they are summed, and its value and gradient in closed form.

With ``e = f - y`` and a bar for 'minus its mean', the three components of GAR need five sums per column besides means and size::

    A = S|e|    D = S e_bar^2    F = S f_bar^2    V = S y_bar^2    Q = S f_bar e_bar

All are sums of centred values, so large offsets do not cancel, and errors enter as errors, not as the difference of two
large sums, so a nearly perfect fit keeps its digits.

The gradient by a prediction is a combination of three vectors, ``w_i (a sign(e_i) + b e_bar_i + c f_bar_i)``, whose coefficients
come from the moments. So a batch costs two passes for the moments and one for the gradient, whatever the number of components, and
nothing of size n is kept for the backward pass but the gradient itself.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.functional.formulas import (
    ARRAYS,
    TENSORS,
    Exchange,
    Moments,
    Number,
    NumberSystem,
    mean_components,
    solve_moments,
    spreads_of,
)
from gar.functional.single import float_components, solve_floats
from gar.groups import Groups
from gar.validation import Columns, check_labels, is_exported

if TYPE_CHECKING:
    from gar.functional.gar import GARSettings


def merge(parts: Moments, groups: Groups | None = None) -> Moments:
    """Return the moments of a union of batches (Chan et al. 1983).

    Every field has the batches along its first dimension; with ``groups`` along its last, and those of the same group are joined.
    """

    def total(values: Number) -> Number:
        return values.sum(0) if groups is None else groups.sums(values)

    def of_parts(joined: Number) -> Number:
        return joined if groups is None else groups.of_rows(joined)

    size = total(parts.size)
    share = parts.size / of_parts(size + (size == 0))
    means = [total(share * mean) for mean in parts[1:4]]
    pred, target, error = (mean - of_parts(joined) for mean, joined in zip(parts[1:4], means, strict=True))
    shifts = (error * error, pred * pred, target * target, pred * error)
    sums = [total(part + parts.size * shift) for part, shift in zip(parts[5:], shifts, strict=True)]
    return Moments._make([size, *means, total(parts.absolute), *sums])


def without_rest(products: Number, size: Number, rest: Number, other_rest: Number) -> Number:
    """Turn a sum of products of shifted values into that of centred values, given the means that the shifts left over.

    The result does not depend on the shift, which has three uses: it may be a guess of the mean, so that one pass gives everything;
    it may be rounded; and it counts as a constant, so that the gradient needs no sums of its own.
    """
    return products - size * rest * other_rest


class ShiftedSums(NamedTuple):
    """What one pass over predictions and errors, both minus a guess of their mean, adds up; blocks of rows add field by field."""

    absolute: Number
    pred: Number
    error: Number
    error_square: Number
    pred_square: Number
    cross: Number

    def moments(self, size: float, guess_pred: Number, guess_error: Number) -> Moments:
        """Return the moments, with those of labels derived from the others: labels are predictions minus errors."""
        pred, error = self.pred / size, self.error / size
        error_square = without_rest(self.error_square, size, error, error)
        pred_square = without_rest(self.pred_square, size, pred, pred)
        cross = without_rest(self.cross, size, pred, error)
        target_square = pred_square - 2.0 * cross + error_square
        if target_square <= 1e-12 * (pred_square + error_square):  # lost in the rounding of the other two
            target_square = 0.0
        pred, error = guess_pred + pred, guess_error + error
        return Moments(size, pred, pred - error, error, self.absolute, error_square, pred_square, target_square, cross)


class CentredBatch(ABC):
    """Centred predictions and errors of a batch, and its moments. Subclasses calculate with tensors or with numpy arrays."""

    def __init__(self, pred: Any, target: Any, size: Number) -> None:
        spare, mean_target, target_square = self._centred(target)
        error = pred - target
        absolute = self._absolute(error)
        self.error, mean_error, error_square = self._centred(error, out=error)
        self.pred, mean_pred, pred_square = self._centred(pred, out=spare)
        cross = self._dot(self.pred, self.error)
        self.moments = Moments(size, mean_pred, mean_target, mean_error, absolute, error_square, pred_square, target_square, cross)

    def _absolute(self, error: Any) -> Number:
        """Return the sum of absolute errors; their signs are kept for the gradient."""
        self.sign = error.sign()
        return self._dot(error, self.sign)

    @abstractmethod
    def _centred(self, values: Any, out: Any = None) -> tuple[Any, Number, Number]:
        """Return values minus their mean, that mean, and the sum of squares; the first may be written to ``out``."""

    @abstractmethod
    def _dot(self, one: Any, other: Any) -> Number:
        """Return the weighted sum of products along the rows."""


class DifferentiableBatch(CentredBatch):
    """A batch whose moments are differentiable operations: for autograd, torch.func and torch.compile."""

    pred: "Shifted"
    error: "Shifted"

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        super().__init__(columns.pred, columns.target, columns.size())

    def _absolute(self, error: Tensor) -> Tensor:
        return self._columns.total((self._columns.pred - self._columns.target).abs())

    def _centred(self, values: Tensor, out: object = None) -> tuple["Shifted", Tensor, Tensor]:
        # The mean of some hundred rows is near enough: sums lose digits only if the guess is many deviations off.
        known, columns = values.detach(), self._columns
        if columns.weight is not None:
            guess = columns.mean(known)
        else:  # an exported program takes any number of rows
            guess = (known if is_exported() else known[..., :_GUESS_FROM]).mean(-1)
        shifted = values - guess.unsqueeze(-1)
        centred = Shifted(shifted, guess, columns.mean(shifted))
        return centred, guess + centred.rest, self._dot(centred, centred)

    def _dot(self, one: "Shifted", other: "Shifted") -> Tensor:
        products = self._columns.total(one.values * other.values)
        return without_rest(products, self._columns.size(), one.rest, other.rest)  # type: ignore[no-any-return]


_GUESS_FROM = 256


class Shifted(NamedTuple):
    """Values minus a guess of their mean, that guess, and the mean that is left over."""

    values: Tensor
    guess: Tensor
    rest: Tensor


def moments(columns: Columns) -> Moments:
    """Return all moments of a batch, as differentiable operations."""
    return DifferentiableBatch(columns).moments


class TensorBatch(CentredBatch):
    """A batch worked on in place: at most three arrays of the size of the predictions.

    A single column is laid out flat, ``(n,)``, and its moments are floats; otherwise they are tensors ``(..., columns)``.
    """

    def __init__(self, columns: Columns) -> None:
        pred, target, self.weight = columns[:3]
        self.single = pred.ndim == 1 and pred.device.type == "cpu"
        size = float(pred.shape[-1]) if self.weight is None else self._total(self.weight)
        self._divisor, self._unit = size + (size == 0), rounding_unit(pred)
        super().__init__(pred, target, size)

    def _centred(self, values: Tensor, out: Tensor | None = None) -> tuple[Tensor, Number, Number]:
        mean = self._mean(values)
        if out is values:
            centred = values.sub_(_factor(mean))
        elif out is not None and values.numel() > _REUSE_ABOVE:
            centred = torch.sub(values, _factor(mean), out=out)
        else:
            centred = values - _factor(mean)
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
        """Return one number per model as a tensor of the batch's dtype and device."""
        if self.single:
            return torch.full((), value, dtype=self.error.dtype)
        return torch.as_tensor(value, dtype=self.error.dtype, device=self.error.device)

    def _per_column(self, coefficient: Number) -> Tensor:
        return torch.as_tensor(coefficient).to(self.error).reshape(*self.error.shape[:-1], 1)

    def gradient(self, by_sign: Number, by_error: Number, by_pred: Number) -> Tensor:
        """Return the gradient by the predictions, built in the memory of the errors."""
        if self.single:
            result = self.error.mul_(by_error).add_(self.pred, alpha=by_pred).add_(self.sign, alpha=by_sign)
        else:
            by_sign, by_error, by_pred = map(self._per_column, (by_sign, by_error, by_pred))
            result = self.error.mul_(by_error).addcmul_(self.pred, by_pred).addcmul_(self.sign, by_sign)
        gradient: Tensor = result if self.weight is None else result.mul_(self.weight)
        return gradient


_REUSE_ABOVE = 16384
"""Above this many values memory is reused, since fresh pages cost more than arithmetic; below, a plain operation is quicker."""


def _factor(per_column: Number) -> Number:
    """Shape one number per column to meet ``(..., columns, n)``; a float stays as it is."""
    return per_column if isinstance(per_column, float) else per_column.unsqueeze(-1)


class SmallBatches(CentredBatch):
    """Models with few rows each, in numpy, whose calls cost less, and in double precision, in which values of single precision are
    centred once instead of twice."""

    LARGEST = 64
    """The most rows of a model for which numpy is not slower than tensors, whatever the number of models, as measured by
    ``python -m benchmarks.losses``: at 64 rows it takes 0.65 of the time for 10 models, 0.69 for 50, 0.84 for 150 and 0.98 for
    300; at 96 rows 1.04 for 300. The two differ in the last bit."""

    @staticmethod
    def suits(columns: Columns) -> bool:
        """Return True for few rows a model. The number of models must not matter: results may not depend on it."""
        pred = columns.pred
        few = pred.ndim > 1 and 0 < pred.shape[-1] <= SmallBatches.LARGEST and columns.weight is None
        return few and pred.device.type == "cpu" and pred.dtype is torch.float32 and columns.target.dtype is torch.float32

    def __init__(self, columns: Columns) -> None:
        pred, target = (values.detach().double().numpy() for values in columns[:2])
        super().__init__(pred, target, float(pred.shape[-1]))

    def _absolute(self, error: np.ndarray) -> np.ndarray:
        self.sign = np.sign(error)
        return self._dot(error, self.sign)

    def _centred(self, values: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean = np.add.reduce(values, -1, keepdims=True) / values.shape[-1]
        centred = np.subtract(values, mean, out=out)
        return centred, mean[..., 0], self._dot(centred, centred)

    def _dot(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("...n,...n->...", one, other))

    def as_result(self, value: Number) -> Tensor:
        """Return one number per model as a tensor of single precision."""
        return torch.as_tensor(value, dtype=torch.float32)

    def gradient(self, by_sign: Number, by_error: Number, by_pred: Number) -> Tensor:
        """Return the gradient by the predictions, built in the memory of the errors."""
        self.error *= by_error[..., None]
        self.pred *= by_pred[..., None]
        self.sign *= by_sign[..., None]
        self.error += self.pred
        self.error += self.sign
        return torch.from_numpy(self.error).float()


def value_and_gradient(
    columns: Columns, alpha: float | Tensor, settings: "GARSettings", exchange: Exchange | None = None
) -> tuple[Tensor, Tensor]:
    """Return the loss, shape ``(...)``, and its gradient by ``columns.pred``, of the shape of that.

    With an ``exchange`` it is the loss of the joined batch of all processes, and its gradient by the rows of this one.
    """
    if columns.pred.ndim == 1:
        return _solve(columns, alpha, settings, exchange)
    with np.errstate(all="ignore"):  # what is not finite shows in the result and needs no warning
        return _solve(columns, alpha, settings, exchange)


def _solve(columns: Columns, alpha: float | Tensor, settings: "GARSettings", exchange: Exchange | None) -> tuple[Tensor, Tensor]:
    batch, share = _centred_batch(columns, settings, exchange)
    m, unit = batch.moments, rounding_unit(columns.pred)
    one = isinstance(m.error, float)
    if not one:
        xp, m, share, alpha = few_numbers(m, share, alpha)
    if exchange is None and settings.nan_policy == "raise" and not np.isfinite(m.mean_target).all():
        check_labels(columns.target)
    found = solve_floats(m, float(alpha), settings, unit) if one else solve_moments(m, share, alpha, settings, unit, xp, exchange)
    value, factors = found
    return batch.as_result(value), batch.gradient(*factors)


def joined_components(columns: Columns, settings: "GARSettings", exchange: Exchange) -> list[Tensor]:
    """Return the components of the joined batch of all processes, shape ``(...)`` each, neither weighted nor aggregated."""
    batch, share = _centred_batch(columns, settings, exchange)
    unit = rounding_unit(columns.pred)
    if isinstance(batch.moments.error, float):
        return [batch.as_result(value) for value in float_components(batch.moments, settings, unit)[0]]
    xp, m, share, _ = few_numbers(batch.moments, share, 1.0)
    with np.errstate(all="ignore"):
        spreads = spreads_of(m, eps=settings.eps, unit=unit, xp=xp)
        means = mean_components(m, share, settings, spreads, xp, exchange)[1]
    return [batch.as_result(mean) for mean in means]


def _centred_batch(
    columns: Columns, settings: "GARSettings", exchange: Exchange | None
) -> tuple[TensorBatch | SmallBatches, Tensor | None]:
    """Return the batch, centred at the means of the joined batch if pairs are made across it, and the shares of its columns."""
    if exchange is None and settings.pairs == "batch" and SmallBatches.suits(columns):
        return SmallBatches(columns), columns.share
    batch = TensorBatch(columns)
    if exchange is None or settings.pairs == "targets":
        return batch, columns.share
    batch.recentre(exchange.merged(batch.moments))
    return batch, None  # a column that is empty here may be filled elsewhere


def few_numbers(m: Moments, share: Tensor | None, alpha: float | Tensor) -> tuple[NumberSystem, Moments, Number, Number]:
    """Return moments, shares of columns and alpha in the cheapest number system; on the CPU in double precision."""
    per_model = alpha.double().numpy() if isinstance(alpha, Tensor) and alpha.device.type == "cpu" else alpha
    if isinstance(m.error, np.ndarray):
        return ARRAYS, m, np.ones_like(m.error) if share is None else share.double().numpy(), per_model
    if m.error.device.type != "cpu":
        m = Moments(*as_table(m))
        return TENSORS, m, filled_columns(m) if share is None else share, alpha
    m = Moments(*as_table(m).numpy())
    return ARRAYS, m, filled_columns(m) if share is None else share.double().numpy(), per_model


def as_table(m: Moments) -> Tensor:
    """Return all moments in one tensor of double precision, the first dimension being the nine fields."""
    if isinstance(m.error, float):
        return torch.tensor(m, dtype=torch.float64)
    size = m.size if isinstance(m.size, Tensor) else torch.full_like(m.error, m.size)
    return torch.stack([size, *m[1:]]).double()


def rounding_unit(like: Tensor) -> float:
    """Return the rounding unit of a tensor's dtype."""
    return torch.finfo(like.dtype).eps


def filled_columns(m: Moments) -> Number:
    """Return 1.0 for every column that has rows, else 0.0."""
    return (m.size > 0) * 1.0
