"""The one list of all losses that every law is tried on. A new loss is one new entry here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from gar import functional
from tests import references as slow


class Inputs(NamedTuple):
    pred: Tensor
    target: Tensor
    features: Tensor

    def numpy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.pred.numpy(), self.target.numpy(), self.features.numpy()


def make_inputs(*lead: int, batch: int = 7, targets: int = 2, dim: int = 3, dtype: torch.dtype = torch.float64) -> Inputs:
    """Random inputs with distinct labels, near enough to have positives and negatives of ConR."""
    pred = torch.randn(*lead, batch, targets, dtype=dtype)
    return Inputs(pred, 0.5 * pred + torch.randn(*lead, batch, targets, dtype=dtype), torch.randn(*lead, batch, dim, dtype=dtype))


@dataclass(frozen=True)
class Case:
    """A loss as a function of all inputs: how to call it, its slow definition, and what it is a function of."""

    name: str
    call: Callable[..., Tensor]
    reference: Callable[[Inputs, float | None], float]
    parameter: str | None = None
    values: tuple[float, ...] = (1.0,)
    learns: str = "pred"
    smooth: bool = True
    perfect: float | None = 0.0
    """The value of a perfect prediction (of distinct labels), if the loss looks at predictions."""
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def loss(self, inputs: Inputs, value: float | Tensor | None = None, **more: Any) -> Tensor:
        own = {self.parameter: self.values[0] if value is None else value} if self.parameter else {}
        return self.call(inputs, **own, **self.options, **more)

    def learned(self, inputs: Inputs) -> Tensor:
        return getattr(inputs, self.learns)

    def with_learned(self, inputs: Inputs, value: Tensor) -> Inputs:
        # Not _replace, which torch.compile of older releases does not trace.
        return Inputs(*(value if name == self.learns else given for name, given in zip(Inputs._fields, inputs, strict=True)))


def _on_pred(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda i, **kw: function(i.pred, i.target, **kw)


def _gar_on_accelerator(inputs: Inputs, **options: Any) -> Tensor:
    """Evaluate GAR by the code path of accelerators, on the CPU."""
    if torch.compiler.is_compiling():  # every device has the same compiled path
        return functional.gar_loss(inputs.pred, inputs.target, **options)
    with mock.patch("gar.functional.gar.on_accelerator", return_value=True):
        return functional.gar_loss(inputs.pred, inputs.target, **options)


def _columns(function: Callable[..., float], *names: str, **fixed: Any) -> Callable[[Inputs, float | None], float]:
    """The reference of a loss of single columns, its parameter being the next positional argument."""

    def reference(inputs: Inputs, value: float | None) -> float:
        pred, target, _ = inputs.numpy()
        extra = {names[0]: value} if names else {}
        return slow.mean_over_targets(lambda f, y: function(f, y, **extra, **fixed), pred, target)

    return reference


def _pairwise(name: str, p: int) -> Case:
    function, reference = {
        "difference": (functional.difference_loss, slow.difference),
        "normalized": (functional.normalized_difference_loss, slow.normalized_difference),
    }[name]
    return Case(f"{name}_p{p}", _on_pred(function), _columns(reference, p=p), options={"p": p})


def groups_of(inputs: Inputs) -> Tensor:
    """Groups that go with their rows wherever these go: by the sign of the first feature."""
    return 40 * (inputs.features[..., 0] > 0).long() - 7


def _in_groups(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda i, **kw: function(i.pred, i.target, groups=groups_of(i), **kw)


def _grouped_gar(reduction: str) -> Case:
    return Case(
        f"gar_{reduction}_groups",
        _in_groups(functional.gar_loss),
        lambda i, value: slow.gar_in_groups(*i.numpy()[:2], groups_of(i).numpy(), 1.0 if value is None else value, reduction),
        "alpha",
        (1.0, 0.1, 10.0, 0.0, float("inf")),
        perfect=None,  # 1 - rho is 1 where no group has two rows
        options={"group_reduction": reduction},
    )


def _grouped_pairwise(name: str, p: int, reduction: str) -> Case:
    function = {"difference": functional.difference_loss, "normalized": functional.normalized_difference_loss}[name]

    def reference(i: Inputs, _: float | None) -> float:
        groups = groups_of(i).numpy()
        of_column = lambda f, y: slow.in_groups(f, y, groups, p, reduction, name == "normalized")  # noqa: E731
        return slow.mean_over_targets(of_column, *i.numpy()[:2])

    options = {"p": p, "group_reduction": reduction}
    return Case(f"{name}_p{p}_{reduction}_groups", _in_groups(function), reference, perfect=None, options=options)


def _agreement(name: str, function: Callable[..., Tensor], of_column: Callable[[Any, Any], float], **options: Any) -> list[Case]:
    """A loss of agreement as it is, and its mean over groups."""

    def in_groups(i: Inputs, _: float | None) -> float:
        groups, undefined = groups_of(i).numpy(), 2.0 / options.get("p", 2.0)
        per_column = lambda f, y: slow.mean_over_groups(of_column, f, y, groups, undefined)  # noqa: E731
        return slow.mean_over_targets(per_column, *i.numpy()[:2])

    plain = Case(name, _on_pred(function), lambda i, _: slow.mean_over_targets(of_column, *i.numpy()[:2]), options=options)
    grouped = {**options, "group_reduction": "mean"}
    return [plain, Case(f"{name}_of_groups", _in_groups(function), in_groups, perfect=None, options=grouped)]


def _away_from_zero(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Kling-Gupta of labels whose mean is far from 0."""

    def shifted(pred: Tensor, target: Tensor, **options: Any) -> Tensor:
        dtype = torch.promote_types(pred.dtype, torch.float32)
        return function(pred.to(dtype) + 1000.0, target.to(dtype) + 1000.0, **options)

    return shifted


def _shifted_kling_gupta(f: np.ndarray, y: np.ndarray, variant: str) -> float:
    return slow.kling_gupta(f + 1000.0, y + 1000.0, variant, "ratio")


def _focal(name: str, power: int, activation: str, gamma: float) -> Case:
    function = {1: functional.focal_mae_loss, 2: functional.focal_mse_loss}[power]
    return Case(
        f"{name}_{activation}",
        _on_pred(function),
        _columns(slow.focal, "beta", gamma=gamma, activation=activation, power=power),
        "beta",
        (1.0, 0.25, 4.0),
        options={"activation": activation, "gamma": gamma},
    )


def _conr_reference(count_excluded: bool) -> Callable[[Inputs, float | None], float]:
    def reference(inputs: Inputs, value: float | None) -> float:
        pred, target, features = inputs.numpy()
        return slow.conr(features, pred, target, value or 0.0, 1.0, 0.01, count_excluded)

    return reference


def _mae_pearson_reference(balance: str) -> Callable[[Inputs, float | None], float]:
    def reference(inputs: Inputs, _: float | None) -> float:
        pred, target, _features = inputs.numpy()
        return slow.mae_pearson(pred, target, balance)

    return reference


CASES = [
    Case("mae", _on_pred(functional.mae_loss), _columns(slow.mae)),
    Case("mse", _on_pred(functional.mse_loss), _columns(slow.mse)),
    Case("huber", _on_pred(functional.huber_loss), _columns(slow.huber, "delta"), "delta", (1.0, 0.25, 4.0)),
    _focal("focal_mae", 1, "sigmoid", 1.0),
    _focal("focal_mae", 1, "tanh", 0.5),
    _focal("focal_mse", 2, "sigmoid", 2.0),
    _focal("focal_mse", 2, "tanh", 1.0),
    Case(
        "ranksim",
        lambda i, **kw: functional.ranksim_loss(i.features, i.target, **kw),
        lambda i, _: slow.ranksim(i.features.numpy(), i.target.numpy()),
        "interpolation",
        (1.0, 0.5, 2.0),
        learns="features",
        smooth=False,
        perfect=None,
    ),
    Case(
        "rnc",
        lambda i, **kw: functional.rank_n_contrast_loss(i.features, i.target, **kw),
        lambda i, value: slow.rank_n_contrast(i.features.numpy(), i.target.numpy(), value or 0.0),
        "temperature",
        (2.0, 1.0, 4.0),
        learns="features",
        perfect=None,
    ),
    *(
        Case(
            f"conr{suffix}",
            lambda i, **kw: functional.conr_loss(i.features, i.pred, i.target, **kw),
            _conr_reference(count),
            "temperature",
            (0.07, 0.5, 1.0),
            learns="features",
            perfect=None,
            options={"count_excluded": count},
        )
        for suffix, count in (("", False), ("_as_published", True))
    ),
    Case(
        "gar",
        _on_pred(functional.gar_loss),
        lambda i, value: slow.gar(*i.numpy()[:2], 1.0 if value is None else value),
        "alpha",
        (1.0, 0.1, 0.5, 10.0, 0.0, float("inf")),
        perfect=float(np.log(1e-7)),
    ),
    Case(
        "gar_accelerated",
        _gar_on_accelerator,
        lambda i, value: slow.gar(*i.numpy()[:2], 1.0 if value is None else value),
        "alpha",
        (1.0, 0.1, 0.5, 10.0, 0.0, float("inf")),
        perfect=float(np.log(1e-7)),
    ),
    Case(
        "gar_exp",
        lambda i, **kw: functional.gar_loss(i.pred, i.target, form="exp", **kw),
        lambda i, value: float(np.exp(slow.gar(*i.numpy()[:2], 1.0 if value is None else value))),
        "alpha",
        (0.5, 1.0, 2.0, 0.0, float("inf")),
        perfect=1e-7,
    ),
    *(
        Case(
            f"mae_pearson_{balance}",
            _on_pred(functional.mae_pearson_loss),
            _mae_pearson_reference(balance),
            options={"balance": balance},
            smooth=False,  # its balance is a constant for the gradient, on purpose
        )
        for balance in ("text", "code")
    ),
    *(_pairwise(name, p) for name in ("difference", "normalized") for p in range(1, 7)),
    Case(
        "gar_of_agreement",
        lambda i, **kw: functional.gar_loss(i.pred, i.target, components=("mae", "ccc", "nse"), **kw),
        lambda i, value: slow.gar_of_agreement(*i.numpy()[:2], 1.0 if value is None else value),
        "alpha",
        (1.0, 0.1, 10.0, 0.0, float("inf")),
        perfect=float(np.log(1e-7)),
    ),
    Case(
        "gar_of_columns",
        lambda i, **kw: functional.gar_loss(i.pred, i.target, average="losses", **kw),
        lambda i, value: slow.mean_over_targets(
            lambda f, y: slow.gar(f[:, None], y[:, None], 1.0 if value is None else value), *i.numpy()[:2]
        ),
        "alpha",
        (1.0, 0.1, 10.0, 0.0, float("inf")),
        perfect=float(np.log(1e-7)),
    ),
    *_agreement("pearson", functional.pearson_loss, slow.pearson),
    *_agreement("concordance", functional.concordance_loss, slow.concordance),
    *_agreement("nash_sutcliffe", functional.nash_sutcliffe_loss, slow.nash_sutcliffe),
    *_agreement(
        "kling_gupta",
        functional.kling_gupta_loss,
        lambda f, y: slow.kling_gupta(f, y, "2009", "deviation"),
        level="deviation",
    ),
    *(
        case
        for variant in ("2009", "2012")
        for case in _agreement(
            f"kling_gupta_{variant}",
            _away_from_zero(functional.kling_gupta_loss),
            partial(_shifted_kling_gupta, variant=variant),
            variant=variant,
        )
    ),
    *(
        case
        for p, q in ((1.0, 2.0), (2.0, 2.0), (1.5, 3.0))
        for case in _agreement(
            f"norm_in_norm_{p:g}_{q:g}",
            functional.norm_in_norm_loss,
            partial(slow.norm_in_norm, p=p, q=q),
            p=p,
            q=q,
        )
    ),
    *(_grouped_gar(reduction) for reduction in ("pooled", "mean")),
    *(
        _grouped_pairwise(name, p, reduction)
        for name in ("difference", "normalized")
        for p in (1, 2, 4)
        for reduction in ("pooled", "mean")
    ),
]
BY_NAME = {case.name: case for case in CASES}
