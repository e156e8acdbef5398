"""Pairs along the batch, along the targets and both, and the order of averaging: against loops over pairs."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.kernels import kernels, meta
from gar import GARLoss, InputError
from gar.functional import gar_loss
from tests import references as slow

Array = np.ndarray
EVERY: list[dict[str, Any]] = [
    {"pairs": "both"},
    *({"average": "losses", "pairs": pairs} for pairs in ("batch", "targets", "both")),
]
every_kind = pytest.mark.parametrize("options", EVERY, ids=["both joined", "columns", "rows", "columns and rows"])


def table() -> tuple[Tensor, Tensor]:
    pred = torch.randn(9, 4, dtype=torch.float64)
    return pred, 0.5 * pred + torch.randn(9, 4, dtype=torch.float64)


def both(pred: Array, target: Array, alpha: float) -> float:
    """Five components, joined once."""
    components = [slow.mean_over_targets(slow.mae, pred, target)]
    for f, y in ((pred, target), (pred.T, target.T)):
        components.append(slow.mean_over_targets(lambda a, b: slow.difference(a, b, 2), f, y))
        components.append(slow.mean_over_targets(lambda a, b: slow.normalized_difference(a, b, 2), f, y))
    return math.log(slow.power_mean([c + 1e-7 for c in components], alpha))


def of_each(pred: Array, target: Array, alpha: float) -> float:
    """GAR of every column, then their mean."""
    return float(np.mean([slow.gar(pred[:, [k]], target[:, [k]], alpha) for k in range(pred.shape[1])]))


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0, 10.0, math.inf])
def test_each_equals_its_slow_definition(alpha: float) -> None:
    pred, target = table()
    f, y = pred.numpy(), target.numpy()
    assert float(gar_loss(pred, target, alpha=alpha, pairs="both")) == pytest.approx(both(f, y, alpha), abs=1e-10)
    assert float(gar_loss(pred, target, alpha=alpha, average="losses")) == pytest.approx(of_each(f, y, alpha), abs=1e-10)
    rows = gar_loss(pred, target, alpha=alpha, average="losses", pairs="targets")
    assert float(rows) == pytest.approx(of_each(f.T, y.T, alpha), abs=1e-10)
    halves = (of_each(f, y, alpha) + of_each(f.T, y.T, alpha)) / 2
    assert float(gar_loss(pred, target, alpha=alpha, average="losses", pairs="both")) == pytest.approx(halves, abs=1e-10)


@every_kind
def test_gradients_and_their_gradients(options: dict[str, Any]) -> None:
    pred, target = table()
    leaf = pred.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: gar_loss(x, target, alpha=0.5, **options), (leaf,))
    assert torch.autograd.gradgradcheck(lambda x: gar_loss(x, target, alpha=0.5, **options), (leaf,))


@every_kind
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own way with a Function
def test_stacks_and_traces(options: dict[str, Any]) -> None:
    (pred, target), (other, labels) = table(), table()
    stack, both_labels, alphas = torch.stack([pred, other]), torch.stack([target, labels]), torch.tensor([0.5, 3.0]).double()
    alone = torch.stack([gar_loss(f, y, alpha=float(a), **options) for f, y, a in zip(stack, both_labels, alphas, strict=True)])
    torch.testing.assert_close(gar_loss(stack, both_labels, alpha=alphas, **options), alone)
    mapped = torch.func.vmap(lambda f, y: gar_loss(f, y, alpha=0.5, **options))(stack, both_labels)
    torch.testing.assert_close(mapped[0], alone[0])
    torch.compiler.reset()
    compiled = torch.compile(lambda f: gar_loss(f, target, alpha=0.5, **options), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(pred), alone[0])


@every_kind
def test_rows_that_do_not_count(options: dict[str, Any]) -> None:
    pred, target = table()
    weight = torch.tensor([1, 2, 0, 1, 3, 1, 0, 1, 1]).double()
    copies = [part.repeat_interleave(weight.long(), 0) for part in (pred, target)]
    torch.testing.assert_close(gar_loss(pred, target, sample_weight=weight, **options), gar_loss(*copies, **options))
    hidden = torch.where(weight[:, None] > 0, target, torch.nan)
    kept = [part[weight > 0] for part in (pred, target)]
    torch.testing.assert_close(gar_loss(pred, hidden, nan_policy="omit", **options), gar_loss(*kept, **options))
    assert gar_loss(pred, target, mask=torch.zeros(9).bool(), **options) == 0.0


def test_components_have_names_of_their_own() -> None:
    pred, target = table()
    found = GARLoss(pairs="both", weights=(1, 0.5, 2)).components_of(pred, target)
    assert list(found) == ["mae", "diff", "diffnorm", "diff_of_targets", "diffnorm_of_targets"]
    torch.testing.assert_close(found["diff_of_targets"], GARLoss(pairs="targets").components_of(pred, target)["diff"])
    weighted = [value * factor + 1e-7 for value, factor in zip(found.values(), (1, 0.5, 2, 0.5, 2), strict=True)]
    value = GARLoss(pairs="both", weights=(1, 0.5, 2))(pred, target)
    torch.testing.assert_close(value, torch.stack(weighted).mean().log())


def test_groups_are_of_the_batch_only() -> None:
    pred, target = table()
    groups = torch.arange(9) % 2
    found = GARLoss(pairs="both").components_of(pred, target, groups=groups)
    torch.testing.assert_close(found["diff"], GARLoss().components_of(pred, target, groups=groups)["diff"])
    torch.testing.assert_close(found["diff_of_targets"], GARLoss(pairs="targets").components_of(pred, target)["diff"])
    halves = GARLoss(average="losses")(pred, target, groups=groups), GARLoss(average="losses", pairs="targets")(pred, target)
    both = GARLoss(average="losses", pairs="both", components=("mae", "diff", "diffnorm"))
    torch.testing.assert_close(both(pred, target, groups=groups), sum(halves) / 2)


@every_kind
def test_they_do_not_wait_for_the_device(options: dict[str, Any]) -> None:
    assert sum(kernels(GARLoss(**options), meta(64, 3).requires_grad_(), meta(64, 3))) > 0


def test_misuse_is_explained() -> None:
    with pytest.raises(InputError, match="average='mean' is unknown"):
        GARLoss(average="mean")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="single target"):
        gar_loss(torch.randn(5, 1), torch.randn(5, 1), pairs="both")
