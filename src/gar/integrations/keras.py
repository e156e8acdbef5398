"""GAR as a loss of Keras 3, on each of its backends: TensorFlow, JAX and PyTorch.

It is the mathematics of :func:`gar.functional.gar_loss` in ``keras.ops``: the formulas of ``gar.functional.formulas``, over
moments that Keras adds up and differentiates.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from gar.errors import InputError
from gar.functional.aggregation import Form
from gar.functional.formulas import (
    Moments,
    NumberSystem,
    Spreads,
    is_spread,
    log_power_mean,
    one_minus_pearson,
    weighted_components,
)
from gar.functional.gar import COMPONENTS, Component, GARSettings
from gar.validation import check_parameter


class _KerasNumbers(NumberSystem):
    def constant(self, x: Any) -> Any:
        return ops.stop_gradient(x)

    def largest(self, values: Sequence[Any]) -> Any:
        return ops.max(ops.stack(list(values)), 0)  # ops.maximum of PyTorch rounds float64 to float32


_KERAS = _KerasNumbers(ops)


@keras.saving.register_keras_serializable(package="gar")
class KerasGARLoss(keras.losses.Loss):  # type: ignore[misc]
    """Gradient Aligned Regression for Keras: ``model.compile(loss=KerasGARLoss(alpha=0.5))``.

    Args:
        alpha: how evenly the components are weighted, from 0 (only the largest) to ``math.inf`` (all alike).
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component.
        form: ``"log"``, or ``"exp"`` for the power mean itself; the log form is **negative** near a good fit.
        eps: added to every component. Standard deviations below it count as zero.
        name: of the loss.
        dtype: of its computations; ``float64`` or, for every other one, ``float32``.

    Outputs are ``(rows,)``, ``(rows, targets)``, or more: each position of a row is then a target, of which rows are compared.
    Labels may lack a last dimension of one. ``sample_weight`` counts copies, as ``(rows,)`` or one value per label; where it is 0,
    or where Keras has masked an output, labels may be NaN. There is no ``reduction``: pairs have no value of a single row. With a
    distribution strategy each replica compares its own rows.

    Example:
        >>> loss = KerasGARLoss(alpha=0.5)
        >>> round(float(loss(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))), 4)
        -1.463
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        components: Sequence[Component] = COMPONENTS,
        weights: Sequence[float] | None = None,
        form: Form = "log",
        eps: float = 1e-7,
        name: str = "gar",
        dtype: str | None = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.alpha = float(check_parameter(alpha, "alpha", open_end=False))
        self.settings = GARSettings(components=components, weights=weights, form=form, eps=eps)
        if others := [one for one in self.settings.components if one not in COMPONENTS]:
            raise InputError(f"components={tuple(components)!r}; in Keras there are {COMPONENTS}, and not {', '.join(others)}")

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        precision = "float64" if self.dtype == "float64" else "float32"
        pred, target = (ops.convert_to_tensor(values, dtype=precision) for values in (y_pred, y_true))
        if len(target.shape) + 1 == len(pred.shape) and pred.shape[-1] == 1:
            target = ops.expand_dims(target, -1)
        _check_shapes(tuple(pred.shape), tuple(target.shape))
        weight = ops.ones_like(pred)
        for factor in (sample_weight, getattr(y_pred, "_keras_mask", None)):
            weight = weight if factor is None else weight * _like(ops.convert_to_tensor(factor, dtype=precision), pred)
        return self._of_columns(*(_as_columns(values) for values in (pred, target, weight)))

    def _of_columns(self, pred: Any, target: Any, weight: Any) -> Any:
        pred, target = (ops.where(weight > 0, values, 0.0) for values in (pred, target))  # what does not count may be NaN
        moments, settings = _moments(pred, target, weight), self.settings
        rows = _divisor(moments.size)
        found = {
            "mae": moments.absolute / rows,
            "diff": moments.error / rows,
            "diffnorm": one_minus_pearson(moments, _spreads(moments, rows, settings.eps), xp=_KERAS),
        }
        filled = ops.cast(moments.size > 0, pred.dtype)
        count = ops.sum(filled)
        means = [ops.sum(found[name] * filled) / _divisor(count) for name in settings.components]
        value = log_power_mean([ops.log(one) for one in weighted_components(means, settings)], self.alpha, xp=_KERAS)
        return ops.where(count > 0, ops.exp(value) if settings.form == "exp" else value, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, by which Keras saves and loads the loss with its model."""
        settings = self.settings
        options = {name: getattr(settings, name) for name in ("components", "weights", "form", "eps")}
        return {"alpha": self.alpha, **options, "name": self.name, "dtype": self.dtype}


def _divisor(size: Any) -> Any:
    return ops.where(size > 0, size, 1.0)


def _moments(pred: Any, target: Any, weight: Any) -> Moments:
    """Return the nine moments of each column; see :mod:`gar.functional.moments`."""
    size = ops.sum(weight, 0)
    rows = _divisor(size)

    def centred(values: Any) -> tuple[Any, Any]:
        mean = ops.sum(weight * values, 0) / rows
        centre = values - mean
        rest = ops.sum(weight * centre, 0) / rows  # a mean is a rounded number
        return centre - rest, mean + rest

    def dot(one: Any, other: Any) -> Any:
        return ops.sum(weight * one * other, 0)

    error = pred - target
    (e, mean_error), (f, mean_pred), (y, mean_target) = (centred(values) for values in (error, pred, target))
    absolute = ops.sum(weight * ops.abs(error), 0)
    return Moments(size, mean_pred, mean_target, mean_error, absolute, dot(e, e), dot(f, f), dot(y, y), dot(f, e))


def _spreads(m: Moments, rows: Any, eps: float) -> Spreads:
    """Return what :func:`gar.functional.formulas.spreads_of` does, without its sums of truth values, which TensorFlow refuses."""
    unit = float(np.finfo(keras.backend.standardize_dtype(m.pred.dtype)).eps)
    labels = is_spread(m.target / rows, m.mean_target, eps, unit)
    defined = is_spread(m.pred / rows, m.mean_pred, eps, unit) & labels
    pred, target = ops.where(defined, m.pred, 1.0), ops.where(defined, m.target, 1.0)
    return Spreads(defined, pred, target, pred**0.5 * target**0.5, labels)


def _check_shapes(pred: tuple[int | None, ...], target: tuple[int | None, ...]) -> None:
    """Raise if shapes differ, where both are known: TensorFlow leaves the number of rows open."""
    agree = len(pred) == len(target) > 0 and all(a == b or None in (a, b) for a, b in zip(pred, target, strict=True))
    if not agree:
        raise InputError(f"y_pred has shape {pred}, y_true {target}; expected the same, or y_true without a last dimension of 1")


def _like(weight: Any, pred: Any) -> Any:
    """Return weights of rows, or of the first dimensions, as one weight per value."""
    while len(weight.shape) < len(pred.shape):
        weight = ops.expand_dims(weight, -1)
    return ops.broadcast_to(weight, ops.shape(pred))


def _as_columns(values: Any) -> Any:
    return ops.reshape(values, (-1, math.prod(values.shape[1:])))
