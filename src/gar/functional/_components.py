"""GAR's settings, checked once, and its components as functions of the moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gar.errors import InputError
from gar.functional._moments import Moments, mean_absolute_error, one_minus_pearson, variance_of_errors
from gar.functional._numbers import Number, Numbers
from gar.functional.aggregation import Form
from gar.validation import NanPolicy, Pairs, check_choice, check_eps

Component = Literal["mae", "diff", "diffnorm"]
COMPONENTS: tuple[Component, ...] = ("mae", "diff", "diffnorm")


@dataclass(frozen=True, kw_only=True)
class GARSettings:
    """Everything about GAR but alpha. See :func:`gar.functional.gar_loss`."""

    components: Sequence[Component] = COMPONENTS
    weights: Sequence[float] | None = None
    form: Form = "log"
    pairs: Pairs = "batch"
    nan_policy: NanPolicy = "raise"
    correction: int = 0
    eps: float = 1e-7

    def __post_init__(self) -> None:
        check_choice(self.form, ("log", "exp"), "form")
        check_choice(self.pairs, ("batch", "targets"), "pairs")
        check_choice(self.nan_policy, ("raise", "omit", "propagate"), "nan_policy")
        if self.correction not in (0, 1):
            raise InputError(f"correction={self.correction!r}; expected 0 (divide by n) or 1 (by n - 1)")
        object.__setattr__(self, "eps", check_eps(self.eps))
        object.__setattr__(self, "components", _checked_components(self.components))
        object.__setattr__(self, "weights", _checked_weights(self.weights, self.components))

    @property
    def all_weights(self) -> Sequence[float]:
        return (1.0,) * len(self.components) if self.weights is None else self.weights


def _checked_components(components: Sequence[Component]) -> tuple[Component, ...]:
    if isinstance(components, str):
        raise InputError(f"components={components!r} is a string; write a tuple: components=({components!r},)")
    for name in components:
        check_choice(name, COMPONENTS, "component")
    if not components or len(set(components)) < len(components):
        raise InputError(f"components={tuple(components)!r}; expected one or more of {COMPONENTS}, each at most once")
    return tuple(components)


def _checked_weights(weights: Sequence[float] | None, components: Sequence[Component]) -> tuple[float, ...] | None:
    if weights is None:
        return None
    if isinstance(weights, (float, int)):
        raise InputError(f"weights={weights!r} is a number; expected one for each of the components {tuple(components)!r}")
    if len(weights) != len(components):
        raise InputError(f"weights={tuple(weights)!r} has {len(weights)} values for {len(components)} components {components!r}")
    if not all(0 < w < float("inf") for w in weights):
        raise InputError(
            f"weights={tuple(weights)!r}; expected positive numbers. To leave a component out, leave it out of components"
        )
    return tuple(float(w) for w in weights)


def column_components(m: Moments, settings: GARSettings, *, unit: float, xp: Numbers) -> list[Number]:
    """The chosen components of every column, neither weighted nor averaged yet."""
    return [_component(name, m, settings, unit, xp) for name in settings.components]


def finished(components: Sequence[Number], settings: GARSettings) -> list[Number]:
    """Weights and eps applied: what the aggregation takes the logarithm of."""
    return [weight * value + settings.eps for weight, value in zip(settings.all_weights, components, strict=True)]


def _component(name: Component, m: Moments, settings: GARSettings, unit: float, xp: Numbers) -> Number:
    if name == "mae":
        return mean_absolute_error(m)
    if name == "diff":
        return variance_of_errors(m)
    return one_minus_pearson(m, eps=settings.eps, unit=unit, correction=settings.correction, xp=xp)
