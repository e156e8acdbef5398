"""GAR for symbolic regression: a fitness for gplearn, and a loss for PySR.

Both take the power mean itself, ``form="exp"``, and not its logarithm: PySR wants losses that are never negative, and gplearn stops
by default as soon as the fitness is 0 or less.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gar.errors import InputError, how_to_install
from gar.functional import gar_loss
from gar.functional.gar import COMPONENTS, Component, GARSettings
from gar.validation import check_parameter

WORST = 1e30
"""Fitness of a program whose values are not finite: a number, for gplearn computes with it."""


def lacking_gplearn() -> str | None:
    """Return what to do if gplearn cannot be imported, or None if it can."""
    try:
        import gplearn.fitness  # noqa: F401
    except ImportError:
        return f"gplearn is not installed; {how_to_install('symbolic')}"
    return None


def gplearn_fitness(
    *, alpha: float = 1.0, components: Sequence[Component] = COMPONENTS, weights: Sequence[float] | None = None
) -> Any:
    """Return GAR as fitness of a program: ``SymbolicRegressor(metric=gplearn_fitness())``. Smaller is better, 0 is perfect.

    Args:
        alpha: how evenly the components are weighted, from 0 (only the largest) to ``math.inf`` (all alike).
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component.

    Example:
        >>> fitness = gplearn_fitness(alpha=0.5)
        >>> y = np.array([1.0, 2.0, 3.0])
        >>> bool(fitness(y, y, np.ones(3)) < 1e-6 < fitness(y, -y, np.ones(3)))
        True
    """
    if (lack := lacking_gplearn()) is not None:
        raise InputError(lack)
    from gplearn.fitness import make_fitness

    _check(alpha, components, weights)
    options: dict[str, Any] = {"alpha": alpha, "components": components, "weights": weights}

    def gar(y: np.ndarray, y_pred: np.ndarray, w: np.ndarray) -> float:
        pred, target, weight = (torch.as_tensor(np.asarray(values, dtype=np.float64)) for values in (y_pred, y, w))
        loss = gar_loss(pred, target, sample_weight=weight, form="exp", nan_policy="propagate", **options)
        value = loss.item()
        return value if math.isfinite(value) else WORST

    return make_fitness(function=gar, greater_is_better=False)


def pysr_loss(*, alpha: float = 1.0, components: Sequence[Component] = COMPONENTS, weights: Sequence[float] | None = None) -> str:
    """Return GAR as Julia code for PySR: ``PySRRegressor(loss_function=pysr_loss())``. Weights of rows are respected.

    Args:
        alpha: how evenly the components are weighted, from 0 (only the largest) to ``math.inf`` (all alike).
        components: any of ``"mae"``, ``"diff"`` and ``"diffnorm"``.
        weights: a positive factor for each component.

    Example:
        >>> print(pysr_loss().splitlines()[0])
        function gar(tree, dataset::Dataset{T,L}, options)::L where {T,L}
    """
    settings = _check(alpha, components, weights)
    parts = zip(settings.components, settings.all_weights, strict=True)
    losses = [f"({weight!r} * {name} + {settings.eps!r})" for name, weight in parts]
    lines = "\n    ".join([*_MOMENTS, f"largest = max({', '.join([*losses, '0.0'])})", f"value = {_power_mean(losses, alpha)}"])
    return _FRAME.format(lines=lines)


def _check(alpha: float, components: Sequence[Component], weights: Sequence[float] | None) -> GARSettings:
    check_parameter(alpha, "alpha", open_end=False)
    return GARSettings(components=components, weights=weights)


def _power_mean(losses: list[str], alpha: float) -> str:
    """Return ``(mean L^(1/alpha))^alpha`` as code, the largest taken out first, so that nothing overflows."""
    if alpha == 0:
        return "largest"
    if math.isinf(alpha):
        return f"exp(({' + '.join(f'log({loss})' for loss in losses)}) / {len(losses)})"
    terms = " + ".join(f"({loss} / largest) ^ {1.0 / alpha!r}" for loss in losses)
    return f"largest * (({terms}) / {len(losses)}) ^ {float(alpha)!r}"


_MOMENTS = (
    "error = pred .- target",
    "mae = sum(weight .* abs.(error)) / sum(weight)",
    "error_bar = error .- sum(weight .* error) / sum(weight)",
    "diff = sum(weight .* error_bar .* error_bar) / sum(weight)",
    "pred_bar = pred .- sum(weight .* pred) / sum(weight)",
    "target_bar = target .- sum(weight .* target) / sum(weight)",
    "spread = sqrt(sum(weight .* pred_bar .* pred_bar)) * sqrt(sum(weight .* target_bar .* target_bar))",
    "rho = sum(weight .* pred_bar .* target_bar) / max(spread, 1.0e-14 * sum(weight))",
    "diffnorm = 1.0 - min(rho, 1.0)",
)
"""Julia that is almost valid Python too, so that it can be tested there; a spread of 0 gives the correlation 0."""

_FRAME = """function gar(tree, dataset::Dataset{{T,L}}, options)::L where {{T,L}}
    pred, complete = eval_tree_array(tree, dataset.X, options)
    complete || return L(Inf)
    target = dataset.y
    weight = dataset.weights === nothing ? one.(target) : dataset.weights
    {lines}
    return isfinite(value) ? L(value) : L(Inf)
end"""
