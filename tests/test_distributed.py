"""One loss over several real processes: gloo on this machine, exact for any shards."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from gar import GARLoss
from gar.functional import gar_loss


def _worker(rank: int, world: int, store: str, task: Callable[..., Any], arguments: tuple[Any, ...], results: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.save(task(rank, world, *arguments), f"{results}/{rank}.pt")
    dist.destroy_process_group()


def run(world: int, folder: Path, task: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The task's results on every rank of a new group of processes."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    spawn(_worker, (world, str(folder / "store"), task, arguments, str(folder)), nprocs=world)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def sharded_loss(rank: int, world: int, shards: list[Any], options: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    pred, target, weight = shards[rank]
    leaf = pred.clone().requires_grad_()
    value = GARLoss(process_group="world", **options)(leaf, target, sample_weight=weight)
    value.sum().backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad / world  # what DistributedDataParallel's mean makes of it


@pytest.mark.parametrize("sizes", [(5, 7), (9, 0, 4)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"alpha": 0.5}, {"alpha": 2.0, "pairs": "targets", "form": "exp"}, {"components": ("diffnorm",), "correction": 1}],
    ids=["batch", "targets", "diffnorm"],
)
def test_shards_equal_the_joined_batch(tmp_path: Path, sizes: tuple[int, ...], weighted: bool, options: dict[str, Any]) -> None:
    """Unequal shards and a rank without rows; the same loss on every rank, the gradient of the joined batch."""
    rows = sum(sizes)
    pred, target = torch.randn(rows, 3, dtype=torch.float64) + 50, torch.randn(rows, 3, dtype=torch.float64) + 60
    weight = torch.rand(rows, dtype=torch.float64) if weighted else None
    leaf = pred.clone().requires_grad_()
    whole = gar_loss(leaf, target, sample_weight=weight, **options)
    whole.backward()
    parts = [part.split(sizes) if part is not None else [None] * len(sizes) for part in (pred, target, weight)]
    results = run(len(sizes), tmp_path, sharded_loss, list(zip(*parts, strict=True)), options)
    for value, _ in results:
        torch.testing.assert_close(value, whole.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.cat([slopes for _, slopes in results]), leaf.grad, rtol=1e-10, atol=1e-13)


def test_shards_in_single_precision(tmp_path: Path) -> None:
    """Several targets in float32, far from zero: moments are merged in double precision."""
    pred, target = torch.randn(40, 3) + 1000, torch.randn(40, 3) + 1000
    leaf = pred.clone().requires_grad_()
    whole = gar_loss(leaf, target)
    whole.backward()
    shards = [(*part, None) for part in zip(pred.split((25, 15)), target.split((25, 15)), strict=True)]
    results = run(2, tmp_path, sharded_loss, shards, {})
    for value, _ in results:
        torch.testing.assert_close(value, whole.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat([slopes for _, slopes in results]), leaf.grad, rtol=1e-2, atol=1e-5)


def one_column(rank: int, world: int, pred: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A plain vector over two ranks, and how many numbers were sent."""
    sent = 0
    collective = dist.all_gather

    def counted(gathered: list[torch.Tensor], values: torch.Tensor, **more: Any) -> Any:
        nonlocal sent
        sent += values.numel()
        return collective(gathered, values, **more)

    dist.all_gather = counted  # type: ignore[assignment]
    value = gar_loss(pred.chunk(world)[rank], target.chunk(world)[rank], process_group="world")
    return value, sent


@pytest.mark.parametrize("rows", [20, 20000])
def test_what_is_sent_does_not_grow_with_the_batch(tmp_path: Path, rows: int) -> None:
    pred, target = torch.randn(rows, dtype=torch.float64), torch.randn(rows, dtype=torch.float64)
    for value, sent in run(2, tmp_path, one_column, pred, target):
        torch.testing.assert_close(value, gar_loss(pred, target), rtol=1e-12, atol=1e-12)
        assert sent == 9


def second_derivative(rank: int, world: int) -> str:
    leaf = torch.randn(4, requires_grad=True)
    value = gar_loss(leaf, torch.randn(4), process_group="world")
    try:
        torch.autograd.grad(value, leaf, create_graph=True)
    except ValueError as error:
        return str(error)
    return "no error"


def test_second_derivatives_say_that_they_are_not_there(tmp_path: Path) -> None:
    assert all("not available with process_group" in message for message in run(2, tmp_path, second_derivative))
