"""Losses, metrics and model families by name: one list each, which everything else uses.

Nothing heavy is imported here, so that ``gar --help`` and shell completion answer at once. A loss names its module by an import
path and loads it when it is built.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from gar.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

Input = Literal["pred", "features"]
Dash = tuple[float, tuple[float, ...]]
"""Offset and lengths of a line's dashes, as matplotlib takes them."""


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a loss is drawn: its colour on a light and on a dark page, its dash and its marker."""

    light: str
    dark: str
    dash: Dash = (0, ())
    marker: str = "o"


@dataclass(frozen=True, kw_only=True)
class LossSpec:
    """What a loss is called, what it needs, and how it is tuned.

    :class:`gar.losses.RegressionLoss` says what its module may take and provide.

    Args:
        title: for tables and figures.
        module: the class of the loss, or its import path, such as ``"gar.losses:GARLoss"``.
        inputs: what it depends on besides labels, in the order of ``forward``: ``(pred, target)``, ``(features, target)`` or
            ``(pred, target, features)``. A loss of features alone trains an encoder, and another loss then the whole network.
        parameter: the name of its tuned parameter, an argument of its constructor.
        grid: values of the parameter to try.
        stacked: whether ``forward`` takes many models at once, ``(models, batch, targets)``, and returns one value for each.
            False is for a loss that returns a single number, such as those of :mod:`torch.nn`: models are evaluated one by one.
        needs_distinct_labels: whether ``forward`` takes ``representatives (..., batch)``, True for one row of every distinct label.
        training_options: further arguments of the class in estimators and comparisons, where its defaults are not what trains best.
        style: how it is drawn; None takes the next free style.
    """

    title: str
    module: "str | type[nn.Module]"
    inputs: tuple[Input, ...] = ("pred",)
    parameter: str | None = None
    grid: tuple[float, ...] = ()
    stacked: bool = True
    needs_distinct_labels: bool = False
    training_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    style: Style | None = None

    @property
    def loss(self) -> "type[nn.Module]":
        """The class of the loss, imported on first use."""
        return _loaded(self.module)  # type: ignore[no-any-return]

    @property
    def options(self) -> frozenset[str]:
        """The names of the constructor's arguments."""
        return _argument_names(self.loss.__init__)

    def build(self, value: "float | Tensor | None" = None, *, nan_policy: str | None = None, **options: Any) -> "nn.Module":
        """Return a module with its tuned parameter set to ``value``; None keeps the default.

        ``nan_policy`` is passed on if the constructor takes it. If not, leaving out missing labels, ``"omit"``, is an error.
        """
        if nan_policy is not None and "nan_policy" in self.options:
            options["nan_policy"] = nan_policy
        elif nan_policy == "omit":
            raise InputError(
                f"labels are missing, and {self.title} cannot omit them; remove these rows, or let its constructor take nan_policy"
            )
        if value is None:
            return self.loss(**options)
        if self.parameter is None:
            raise InputError(f"{self.title} has no parameter to tune, but was given {value!r}; leave it out")
        return self.loss(**{self.parameter: value}, **options)

    def takes(self, name: str) -> bool:
        """Return True if ``forward`` takes this keyword."""
        return name in _argument_names(self.loss.forward)

    def check_takes(self, names: Iterable[str]) -> None:
        """Raise if ``forward`` does not take all of these keywords."""
        for name in names:
            if not self.takes(name):
                raise InputError(f"{self.title} takes no {name}; leave it out, or let its forward take {name}=None")


@functools.cache
def _argument_names(function: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(function).parameters.values()
    return frozenset(one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)) - {"self"}


def _loaded(module: str | type) -> Any:
    if not isinstance(module, str):
        return module
    path, _, name = module.partition(":")
    return getattr(import_module(path), name)


_LOSSES: dict[str, LossSpec] = {
    "mae": LossSpec(title="MAE", module="gar.losses:MAELoss", style=Style(light="#3a298e", dark="#7a63f4")),
    "mse": LossSpec(
        title="MSE", module="gar.losses:MSELoss", style=Style(light="#5299e0", dark="#5ba0b9", dash=(0, (5, 1.5)), marker="s")
    ),
    "huber": LossSpec(
        title="Huber",
        module="gar.losses:HuberLoss",
        parameter="delta",
        grid=(0.25, 1.0, 4.0),
        style=Style(light="#12684b", dark="#6fe3b4", dash=(0, (3, 1.2)), marker="^"),
    ),
    "focal_mae": LossSpec(
        title="Focal (MAE)",
        module="gar.losses:FocalMAELoss",
        parameter="beta",
        grid=(0.25, 1.0, 4.0),
        style=Style(light="#8f995c", dark="#e3edb0", dash=(0, (1.2, 1.2)), marker="v"),
    ),
    "focal_mse": LossSpec(
        title="Focal (MSE)",
        module="gar.losses:FocalMSELoss",
        parameter="beta",
        grid=(0.25, 1.0, 4.0),
        style=Style(light="#791515", dark="#e0355f", dash=(0, (5, 1.2, 1.2, 1.2)), marker="<"),
    ),
    "ranksim": LossSpec(
        title="RankSim",
        module="gar.losses:RankSimLoss",
        inputs=("pred", "features"),
        parameter="interpolation",
        grid=(0.5, 1.0, 2.0),
        needs_distinct_labels=True,
        style=Style(light="#852fda", dark="#b8a4fa", dash=(0, (7, 2)), marker=">"),
    ),
    "rnc": LossSpec(
        title="RNC",
        module="gar.losses:RankNContrastLoss",
        inputs=("features",),
        parameter="temperature",
        grid=(1.0, 2.0, 4.0),
        style=Style(light="#be3791", dark="#fbd0f3", dash=(0, (3, 1.2, 1, 1.2)), marker="p"),
    ),
    "conr": LossSpec(
        title="ConR",
        module="gar.losses:ConRLoss",
        inputs=("pred", "features"),
        parameter="beta",
        grid=(0.2, 1.0, 4.0),
        style=Style(light="#c87e8b", dark="#b88c89", dash=(0, (1.2, 2.2)), marker="h"),
    ),
    "gar": LossSpec(
        title="GAR",
        module="gar.losses:GARLoss",
        parameter="alpha",
        grid=(0.1, 1.0, 10.0),
        style=Style(light="#d9480f", dark="#ff8a4c", marker="D"),
    ),
    "mae_pearson": LossSpec(
        title="MAE-Pearson",
        module="gar.losses:MAEPearsonLoss",
        training_options={"balance": "code"},  # by the paper's text training diverges while the correlation is negative
        style=Style(light="#56254e", dark="#b74cc4", dash=(0, (7, 1.5, 1.2, 1.5, 1.2, 1.5)), marker="P"),
    ),
    "pearson": LossSpec(title="Pearson", module="gar.losses:PearsonLoss"),
    "concordance": LossSpec(title="Concordance", module="gar.losses:ConcordanceLoss"),
    "nash_sutcliffe": LossSpec(title="Nash-Sutcliffe", module="gar.losses:NashSutcliffeLoss"),
    "kling_gupta": LossSpec(
        title="Kling-Gupta",
        module="gar.losses:KlingGuptaLoss",
        training_options={"level": "deviation"},  # labels are standardised in training, so their mean is near 0
    ),
    "norm_in_norm": LossSpec(title="Norm-in-Norm", module="gar.losses:NormInNormLoss"),
}

LOSSES: Mapping[str, LossSpec] = MappingProxyType(_LOSSES)
"""Every loss by name: the paper's nine in its order, MAE-Pearson, those of agreement, then those that :func:`register` added.

Colours are chosen so that GAR is far from all others, and these from each other, also for readers who see no red or no green. With
ten methods colour alone is not enough, so dashes and markers differ too."""

PAPER_LOSSES = ("mae", "mse", "huber", "focal_mae", "focal_mse", "ranksim", "rnc", "conr", "gar")
"""The methods of the paper's tables: what a comparison trains by default. A new loss does not join it by accident."""

BASELINE, METHOD_OF_INTEREST = "mae", "gar"
"""The loss that gains are counted from, and the loss that a report is about."""


_BUILT_IN = frozenset(_LOSSES)


def register(name: str, spec: LossSpec) -> None:
    """Add a loss of your own: it then works by name in the estimators, in comparisons and in reports.

    The same class may be registered again, as when a cell of a notebook is run twice; the last one counts.

    Args:
        name: letters, digits and underscores, as in ``--losses``.
        spec: what the loss is and needs.

    Example:
        >>> import torch
        >>> class LogCoshLoss(torch.nn.Module):
        ...     def forward(self, pred, target):
        ...         return (pred - target).cosh().log().mean((-2, -1))
        >>> register("log_cosh", LossSpec(title="Log-cosh", module=LogCoshLoss))
        >>> register("smooth_l1", LossSpec(title="Smooth L1", module=torch.nn.SmoothL1Loss, parameter="beta", stacked=False))
        >>> LOSSES["log_cosh"].title
        'Log-cosh'
    """
    if not name.isidentifier():
        raise InputError(f"name={name!r} cannot name a loss; use letters, digits and underscores, such as 'log_cosh'")
    known = _LOSSES.get(name, spec)
    if known != spec and (name in _BUILT_IN or _path(known) != _path(spec)):
        raise InputError(f"a loss named {name!r} ({known.title}) exists already; choose another name")
    _LOSSES[name] = spec


def _path(spec: LossSpec) -> str:
    return spec.module if isinstance(spec.module, str) else f"{spec.module.__module__}:{spec.module.__qualname__}"


def registered(names: Iterable[str]) -> dict[str, LossSpec]:
    """Return those of these losses that :func:`register` added: what another process must register too."""
    return {name: _LOSSES[name] for name in names if name not in _BUILT_IN}


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """What a metric is called, its position wherever all metrics stand side by side, and its direction."""

    title: str
    index: int
    larger_is_better: bool

    @property
    def sign(self) -> float:
        """Return 1 if larger is better, else -1: ``sign * value`` is a score, of which larger is better."""
        return 1.0 if self.larger_is_better else -1.0


METRICS: Mapping[str, MetricSpec] = MappingProxyType(
    {
        "mae": MetricSpec(title="MAE", index=0, larger_is_better=False),
        "rmse": MetricSpec(title="RMSE", index=1, larger_is_better=False),
        "pearson": MetricSpec(title="Pearson", index=2, larger_is_better=True),
        "spearman": MetricSpec(title="Spearman", index=3, larger_is_better=True),
        "r2": MetricSpec(title="R²", index=4, larger_is_better=True),
    }
)
"""Every metric by name, in the order in which they are always given."""

_SKLEARN_METRICS: Mapping[str, str] = {
    "neg_mean_absolute_error": "mae",
    "neg_root_mean_squared_error": "rmse",
    "neg_mean_squared_error": "rmse",  # of two models, the one with the smaller square has the smaller root
}


def metric_name(name: str) -> str:
    """Return the name of a metric, which may be given by scikit-learn's name of its scorer.

    Example:
        >>> metric_name("neg_mean_absolute_error"), metric_name("r2")
        ('mae', 'r2')
    """
    if name not in METRICS and name not in _SKLEARN_METRICS:
        known = ", ".join(repr(one) for one in (*METRICS, *_SKLEARN_METRICS))
        raise InputError(f"scoring={name!r} is unknown; use one of {known}")
    return _SKLEARN_METRICS.get(name, name)


@dataclass(frozen=True, kw_only=True)
class FamilySpec:
    """A kind of model that a comparison can train.

    Args:
        title: for tables and figures.
        module: the class that implements it, or its import path: of boosted trees, a :class:`gar.boosting.library.TreeLibrary`.
        losses: what it can be trained with; None is every loss.
        dash: of its lines; None keeps that of the loss.
        marker: of its points; None keeps that of the loss.
    """

    title: str
    module: str | type
    losses: tuple[str, ...] | None = None
    dash: Dash | None = None
    marker: str | None = None

    @property
    def implementation(self) -> Any:
        """The class of the family, imported on first use."""
        return _loaded(self.module)


NETWORKS = "mlp"
_TREE_LOSSES = ("mae", "mse", "huber", "gar")

_FAMILIES: dict[str, FamilySpec] = {
    NETWORKS: FamilySpec(title="Networks", module="gar.app.compare.networks:Networks"),
    "xgboost": FamilySpec(
        title="XGBoost", module="gar.boosting.xgboost:XGBoost", losses=_TREE_LOSSES, dash=(0, (2.5, 0.8)), marker="s"
    ),
    "lightgbm": FamilySpec(
        title="LightGBM", module="gar.boosting.lightgbm:LightGBM", losses=_TREE_LOSSES, dash=(0, (0.9, 0.9)), marker="^"
    ),
}

FAMILIES: Mapping[str, FamilySpec] = MappingProxyType(_FAMILIES)
"""Kinds of models: networks, and boosted trees of one library each. A library is one module of :mod:`gar.boosting`, one entry."""


def register_family(name: str, spec: FamilySpec) -> None:
    """Add boosted trees of another library: they then work by name in comparisons and in reports.

    Args:
        name: letters, digits and underscores, as in ``--models``.
        spec: its title, the losses that it can be trained with, and its :class:`gar.boosting.library.TreeLibrary`.
    """
    if not name.isidentifier():
        raise InputError(f"name={name!r} cannot name a model; use letters, digits and underscores, such as 'catboost'")
    if _FAMILIES.get(name, spec) != spec:
        raise InputError(f"a model named {name!r} ({_FAMILIES[name].title}) exists already; choose another name")
    _FAMILIES[name] = spec
