"""Losses over the pairs of groups: every law of them is in tests/functional/test_laws.py, here is what only groups have."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.kernels import kernels, meta
from gar import ConcordanceLoss, GARLoss, KlingGuptaLoss, NashSutcliffeLoss, NormInNormLoss, PearsonLoss
from gar.accumulation import backward_in_parts
from gar.functional import blocks, difference_loss, gar_loss, normalized_difference_loss
from gar.functional.grouped import GroupReduction
from gar.validation import as_groups
from tests.processes import Ranks, refusal

both_reductions = pytest.mark.parametrize("reduction", ["pooled", "mean"])


def batch(rows: int = 60, targets: int = 2, groups: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Groups with offsets, which no difference within a group sees."""
    index = torch.randint(groups, (rows,))
    offset = 10 * torch.randn(groups, targets, dtype=torch.float64)[index]
    pred = torch.randn(rows, targets, dtype=torch.float64)
    return pred, pred + torch.randn(rows, targets, dtype=torch.float64) + offset, index


def value_and_slopes(call: Callable[[Tensor], Tensor], pred: Tensor) -> tuple[Tensor, Tensor]:
    leaf = pred.clone().requires_grad_()
    value = call(leaf)
    value.backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad


@both_reductions
def test_the_names_of_groups_do_not_matter(reduction: GroupReduction) -> None:
    """Dense or sparse, negative or huge, in any order: the first are offsets into a table, the others are sorted."""
    pred, target, index = batch()
    names = torch.randperm(9) * 2**58 - 2**62
    dense = value_and_slopes(lambda f: gar_loss(f, target, groups=index, group_reduction=reduction), pred)
    sparse = value_and_slopes(lambda f: gar_loss(f, target, groups=names[index], group_reduction=reduction), pred)
    torch.testing.assert_close(dense, sparse, rtol=1e-12, atol=1e-14)
    assert as_groups(names[index], pred).total == len(index.unique())


@both_reductions
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_any_whole_numbers_are_groups(reduction: GroupReduction, dtype: torch.dtype) -> None:
    pred, target, index = batch(groups=2)
    torch.testing.assert_close(
        gar_loss(pred, target, groups=index.to(dtype), group_reduction=reduction),
        gar_loss(pred, target, groups=index, group_reduction=reduction),
    )


@both_reductions
def test_one_group_is_the_whole_batch(reduction: GroupReduction) -> None:
    pred, target, _ = batch()
    grouped = value_and_slopes(lambda f: gar_loss(f, target, groups=torch.full((60,), 5), group_reduction=reduction), pred)
    torch.testing.assert_close(grouped, value_and_slopes(lambda f: gar_loss(f, target), pred), rtol=1e-12, atol=1e-14)


@both_reductions
def test_offsets_of_groups_are_not_compared(reduction: GroupReduction) -> None:
    pred, target, index = batch(targets=1)
    components = GARLoss(group_reduction=reduction).components_of
    shifted = components(pred + 100.0 * torch.randn(9, 1)[index], target, groups=index)
    plain = components(pred, target, groups=index)
    torch.testing.assert_close(shifted["diff"], plain["diff"])
    torch.testing.assert_close(shifted["diffnorm"], plain["diffnorm"])
    assert shifted["mae"] > 2 * plain["mae"]


@both_reductions
def test_groups_without_differences_do_not_count(reduction: GroupReduction) -> None:
    """Neither a row alone, however often it counts, nor rows with one label."""
    pred, target, index = batch()
    more_pred, more_target = (
        torch.randn(5, 2).double(),
        torch.tensor([[3.0], [1e6 + 0.1], [1e6 + 0.1], [1e6 + 0.1], [0.0]]).double(),
    )
    groups, weight = torch.cat([index, torch.tensor([50, 51, 51, 51, 52])]), torch.ones(65).double()
    weight[-1] = 7.0
    for loss in (difference_loss, normalized_difference_loss):
        for p in (1, 2, 4):
            found = loss(
                torch.cat([pred, more_pred]),
                torch.cat([target, more_target.expand(5, 2)]),
                p=p,
                groups=groups,
                group_reduction=reduction,
                sample_weight=weight,
            )
            torch.testing.assert_close(found, loss(pred, target, p=p, groups=index, group_reduction=reduction))


@both_reductions
def test_every_model_may_have_groups_of_its_own(reduction: GroupReduction) -> None:
    pred, target, index = batch()
    stack, other = torch.stack([pred, pred.flip(0)]), torch.stack([index, index.roll(3)])
    together = gar_loss(stack, target.expand_as(stack), groups=other, group_reduction=reduction)
    alone = [gar_loss(f, target, groups=g, group_reduction=reduction) for f, g in zip(stack, other, strict=True)]
    torch.testing.assert_close(together, torch.stack(alone))
    shared = gar_loss(stack, target.expand_as(stack), groups=index, group_reduction=reduction)
    torch.testing.assert_close(shared[0], alone[0])


@both_reductions
def test_single_precision_keeps_its_digits(reduction: GroupReduction) -> None:
    """Labels around a million that spread by one, in groups with offsets; and a nearly perfect fit."""
    index = torch.randint(20, (4000,))
    offset = 1e6 + 10 * torch.randn(20)[index]
    target = (offset + torch.randn(4000)).float()
    pred = (target.double() + 0.5 * torch.randn(4000).double()).float()
    loss, near = GARLoss(group_reduction=reduction, components=("diffnorm",)), target - offset
    for f, y, tolerance in ((pred, target, 1e-4), (near * 1.00005 + 3e-5 * torch.randn(4000), near, 2e-2)):
        single = value_and_slopes(partial(loss, target=y, groups=index), f)
        double = value_and_slopes(partial(loss, target=y.double(), groups=index), f.double())
        torch.testing.assert_close(single[0].double().exp(), double[0].exp(), rtol=tolerance, atol=0)
        torch.testing.assert_close(single[1].double(), double[1], rtol=tolerance, atol=tolerance * float(double[1].abs().max()))


@both_reductions
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [1.0, 1e4], ids=["near", "far"])
def test_blocks_of_rows_add_up(monkeypatch: pytest.MonkeyPatch, reduction: GroupReduction, weighted: bool, offset: float) -> None:
    """In blocks of 14 rows, the last one shorter, with groups near and far from each other, and a row alone."""
    pred, target, index = batch()
    index[-1], target = 9, target + offset * torch.randn(10, 2).double()[index]
    stack, labels = torch.stack([pred, pred.flip(0) + offset]), torch.stack([target, target])

    counts = torch.randint(3, (2, 60)).double() if weighted else None

    def found(labels: Tensor) -> tuple[Tensor, Tensor]:
        f = stack.clone().requires_grad_()
        loss = gar_loss(f, labels, groups=index, group_reduction=reduction, sample_weight=counts)
        return loss.detach(), torch.autograd.grad(loss.sum(), f)[0]

    monkeypatch.setattr(blocks, "STACK_BLOCK", 14)
    in_equations = found(labels.clone().requires_grad_())
    torch.testing.assert_close(found(labels), in_equations, rtol=1e-9, atol=1e-10)


@both_reductions
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e3], ids=["together", "near", "far"])
@pytest.mark.parametrize("level", [0.0, 1e4])
def test_a_single_column_is_that_of_the_equations(
    monkeypatch: pytest.MonkeyPatch, reduction: GroupReduction, weighted: bool, offset: float, level: float
) -> None:
    """In one pass or in two, with means of the column taken off or not; labels of a group may differ in its last rows only."""
    monkeypatch.setattr(blocks, "BLOCK", 700)
    index = torch.randint(40, (5000,))
    index[-60:] = 40
    target = level + offset * torch.randn(41).double()[index] + torch.randn(5000).double()
    target[-60:-30] = target[-60]
    pred = 0.7 * target + torch.randn(5000).double()
    weight = torch.randint(3, (5000,)).double() if weighted else None
    loss = partial(gar_loss, groups=index, group_reduction=reduction, sample_weight=weight)
    expected = value_and_slopes(lambda f: loss(f, target.clone().requires_grad_()), pred)
    torch.testing.assert_close(value_and_slopes(lambda f: loss(f, target), pred), expected, rtol=1e-8, atol=1e-12)


@both_reductions
@pytest.mark.parametrize("constant", ["labels", "predictions"])
def test_large_groups_of_equal_values_in_single_precision(reduction: GroupReduction, constant: str) -> None:
    """Means of many equal values are rounded, which looks like a spread."""
    index = torch.arange(200_000) % 4
    same, other = torch.tensor([0.1, 0.37, 11.3, 1234.567])[index], torch.randn(200_000)
    pred, target = (same + 0, same + other) if constant == "predictions" else (other, same)
    loss = GARLoss(components=("diffnorm",), group_reduction=reduction)
    value, slopes = value_and_slopes(lambda f: loss(f, target, groups=index), pred)
    assert float(value.exp()) == pytest.approx(1.0, abs=1e-5)
    assert slopes.abs().max() == 0.0


@both_reductions
@pytest.mark.parametrize("together", [1, 8, 5000])
def test_rows_of_a_group_may_come_together(reduction: GroupReduction, together: int) -> None:
    """In runs, which are summed first, the loss is that of any order."""
    index = (torch.arange(10_000) // together) % 37
    pred = torch.randn(10_000).double()
    target = pred + torch.randn(10_000).double() + torch.randn(37).double()[index]
    order = torch.randperm(10_000)
    value, slopes = value_and_slopes(lambda f: gar_loss(f, target, groups=index, group_reduction=reduction), pred)
    other = value_and_slopes(lambda f: gar_loss(f, target[order], groups=index[order], group_reduction=reduction), pred[order])
    torch.testing.assert_close(other, (value, slopes[order]), rtol=1e-10, atol=1e-14)


@both_reductions
def test_value_and_gradient(reduction: GroupReduction) -> None:
    pred, target, index = batch()
    loss = GARLoss(0.5, group_reduction=reduction)
    expected = value_and_slopes(lambda f: loss(f, target, groups=index), pred)
    torch.testing.assert_close(loss.value_and_gradient(pred, target, groups=index), expected)


@both_reductions
@pytest.mark.parametrize(
    "options", [{}, {"sample_weight": meta(64)}, {"mask": meta(64, 2).bool()}], ids=["plain", "weight", "mask"]
)
def test_groups_do_not_wait_for_the_device(reduction: GroupReduction, options: dict[str, Tensor]) -> None:
    loss, groups = GARLoss(group_reduction=reduction), meta(64).long()
    assert sum(kernels(loss, meta(64, 2).requires_grad_(), meta(64, 2), groups=groups, **options)) <= 270


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    ranks = Ranks(3, tmp_path_factory.mktemp("world-3"))
    yield ranks
    ranks.close()


def sharded(rank: int, world: int, shards: list[Any], reduction: GroupReduction) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    pred, target, groups, weight = shards[rank]
    loss = GARLoss(0.5, process_group="world", group_reduction=reduction)
    value, slopes = value_and_slopes(lambda f: loss(f, target, groups=groups, sample_weight=weight), pred)
    return value, slopes / world, loss.components_of(pred, target, groups=groups, sample_weight=weight)


@both_reductions
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(20, 33, 7), (40, 0, 20)])
def test_groups_over_processes_equal_one_process(
    three: Ranks, reduction: GroupReduction, weighted: bool, sizes: tuple[int, ...]
) -> None:
    """Every group has rows on all ranks, and one rank may have none."""
    pred, target, index = batch()
    groups, weight = index * 2**55 - 3, torch.rand(60).double() if weighted else None
    loss = GARLoss(0.5, group_reduction=reduction)
    expected = value_and_slopes(lambda f: loss(f, target, groups=groups, sample_weight=weight), pred)
    parts = [part.split(sizes) if part is not None else [None] * 3 for part in (pred, target, groups, weight)]
    results = three.run(sharded, list(zip(*parts, strict=True)), reduction)
    for value, _, components in results:
        torch.testing.assert_close(value, expected[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(components, loss.components_of(pred, target, groups=groups, sample_weight=weight))
    torch.testing.assert_close(torch.cat([slopes for _, slopes, _ in results]), expected[1], rtol=1e-9, atol=1e-12)


AGREEMENT: dict[str, Callable[..., Any]] = {
    "pearson": PearsonLoss,
    "concordance": ConcordanceLoss,
    "nash_sutcliffe": NashSutcliffeLoss,
    "kling_gupta": KlingGuptaLoss,
    "gar": partial(GARLoss, components=("mae", "ccc", "nse")),
    "norm_in_norm": NormInNormLoss,
    "both": partial(GARLoss, pairs="both"),
    "columns and rows": partial(GARLoss, pairs="both", average="losses"),
}


def sharded_agreement(rank: int, world: int, name: str, shards: list[Any], **options: Any) -> tuple[Tensor, Tensor]:
    pred, target, groups = shards[rank]
    loss = AGREEMENT[name](process_group="world", group_reduction="mean")
    value, slopes = value_and_slopes(lambda f: loss(f, target, groups=groups), pred)
    return value, slopes / world


@pytest.mark.parametrize("grouped", [False, True], ids=["batch", "groups"])
@pytest.mark.parametrize("name", AGREEMENT)
def test_agreement_over_processes_and_in_parts_is_that_of_the_whole(three: Ranks, name: str, grouped: bool) -> None:
    pred, target, index = batch()
    pred, target, groups = pred + 50, target + 50, index if grouped else None
    loss = AGREEMENT[name](group_reduction="mean")
    value, slopes = value_and_slopes(lambda f: loss(f, target, groups=groups), pred)
    sizes = (20, 33, 7)
    parts = [part.split(sizes) if part is not None else [None] * 3 for part in (pred, target, groups)]
    results = three.run(sharded_agreement, name, list(zip(*parts, strict=True)))
    for found, _ in results:
        torch.testing.assert_close(found, value, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(torch.cat([part for _, part in results]), slopes, rtol=1e-9, atol=1e-12)
    if name in ("norm_in_norm", "both", "columns and rows"):  # they need all rows at once
        return
    model = torch.nn.Linear(2, 2, bias=False).double()
    torch.nn.init.eye_(model.weight)
    backward_in_parts(model, loss, pred, target, size=7, groups=groups)
    torch.testing.assert_close(model.weight.grad, slopes.T @ pred)


def rows_and_components(rank: int, world: int, shards: list[Any]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    pred, target, weight = shards[rank]
    loss = GARLoss(pairs="targets", average="losses", process_group="world")
    value, slopes = value_and_slopes(lambda f: loss(f, target, sample_weight=weight), pred)
    both = GARLoss(pairs="both", process_group="world").components_of(pred, target, sample_weight=weight)
    return value, slopes / world, both


def test_pairs_of_targets_over_processes_are_those_of_the_whole(three: Ranks) -> None:
    pred, target, _ = batch(targets=3)
    weight, sizes = torch.rand(60).double(), (20, 33, 7)
    loss = GARLoss(pairs="targets", average="losses")
    value, slopes = value_and_slopes(lambda f: loss(f, target, sample_weight=weight), pred)
    results = three.run(rows_and_components, list(zip(*(part.split(sizes) for part in (pred, target, weight)), strict=True)))
    for found, _, components in results:
        torch.testing.assert_close(found, value, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(components, GARLoss(pairs="both").components_of(pred, target, sample_weight=weight))
    torch.testing.assert_close(torch.cat([part for _, part, _ in results]), slopes, rtol=1e-9, atol=1e-12)


def one_wrong_rank(rank: int, world: int) -> str:
    groups = torch.zeros(6 if rank else 5).long()
    return refusal(lambda: GARLoss(process_group="world")(torch.randn(6, 1), torch.randn(6, 1), groups=groups))


def test_wrong_groups_are_an_error_on_all_processes(three: Ranks) -> None:
    assert all("groups has shape (5,)" in message for message in three.run(one_wrong_rank))
