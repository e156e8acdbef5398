"""One loss over several real processes: gloo on this machine, exact for any shards."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gar import ConRLoss, GARLoss, RankNContrastLoss, RankSimLoss
from gar.accumulation import backward_in_parts
from gar.errors import InputError
from gar.functional import gar_loss, ranksim_loss
from gar.functional._joined_rows import join_rows
from tests.processes import Ranks, Traffic

STEPS = 20


def _ranks(world: int, factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    ranks = Ranks(world, factory.mktemp(f"world-{world}"))
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    yield from _ranks(2, tmp_path_factory)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    yield from _ranks(3, tmp_path_factory)


@pytest.fixture(params=["two", "three"])
def ranks(request: pytest.FixtureRequest) -> Ranks:
    return request.getfixturevalue(request.param)


class Net(nn.Module):
    """Two outputs and the features before them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.Tanh())
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return self.head(features), features


LOSSES: dict[str, Callable[..., Any]] = {
    "gar": lambda group: GARLoss(0.5, process_group=group),
    "gar of targets": lambda group: GARLoss(2.0, pairs="targets", form="exp", process_group=group),
    "ranksim": lambda group: RankSimLoss(2.0, gamma=1.0, process_group=group),
    "rnc": lambda group: RankNContrastLoss(process_group=group),
    "conr": lambda group: ConRLoss(window=0.7, process_group=group),
}


def of_outputs(name: str, group: str | None) -> Callable[..., Tensor]:
    """A loss as a function of the network's two outputs."""
    loss = LOSSES[name](group)
    if name == "rnc":  # the head is no part of it, but DDP waits for its gradient
        return lambda out, y, **more: loss(out[1], y, **more) + 0.0 * out[0].sum()
    if name.startswith("gar"):
        return lambda out, y, **more: loss(out[0], y, **more)
    return lambda out, y, **more: loss(out[0], y, out[1], **more)


def make_batch(weighted: bool) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(21, width, dtype=torch.float64, generator=generator) for width in (4, 2))
    weight, mask = torch.rand(21, dtype=torch.float64, generator=generator), torch.rand(21, generator=generator) > 0.2
    return x, y + 3 * x[:, :2], {"sample_weight": weight, "mask": mask} if weighted else {}


def shard_sizes(step: int, world: int) -> list[int]:
    """Another cut at every step; at every fourth the first rank has no rows."""
    first = 0 if step % 4 == 3 else 3 + step % 7
    rest = 21 - first
    return [first, rest] if world == 2 else [first, rest - 5, 5]


def train(net: nn.Module, loss: Callable[..., Tensor], shard: Callable[[Tensor, int], Tensor], *, weighted: bool) -> Tensor:
    """Parameters after some steps on this rank's part of the batch."""
    x, y, options = make_batch(weighted)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        mine = {name: shard(value, step) for name, value in options.items()}
        loss(net(shard(x, step)), shard(y, step), **mine).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def make_net() -> Net:
    torch.manual_seed(3)
    return Net().double()


def train_rank(rank: int, world: int, name: str, weighted: bool) -> Tensor:
    net = DistributedDataParallel(make_net())
    return train(net, of_outputs(name, "world"), lambda v, step: v.split(shard_sizes(step, world))[rank], weighted=weighted)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights and mask"])
@pytest.mark.parametrize("name", LOSSES)
def test_training_equals_one_process(ranks: Ranks, name: str, weighted: bool) -> None:
    """DDP on unequal and empty shards, against one process with the joined batch."""
    start = torch.cat([p.detach().flatten() for p in make_net().parameters()])
    expected = train(make_net(), of_outputs(name, None), lambda v, step: v, weighted=weighted)
    assert (expected - start).abs().max() > 1e-3
    for parameters in ranks.run(train_rank, name, weighted):
        torch.testing.assert_close(parameters, expected, rtol=1e-9, atol=1e-9)


def sharded_loss(rank: int, world: int, shards: list[Any], options: dict[str, Any]) -> tuple[Tensor, Tensor]:
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
def test_shards_equal_the_joined_batch(
    request: pytest.FixtureRequest, sizes: tuple[int, ...], weighted: bool, options: dict[str, Any]
) -> None:
    """Unequal shards and a rank without rows; the same loss on every rank, the gradient of the joined batch."""
    rows = sum(sizes)
    pred, target = torch.randn(rows, 3, dtype=torch.float64) + 50, torch.randn(rows, 3, dtype=torch.float64) + 60
    weight = torch.rand(rows, dtype=torch.float64) if weighted else None
    leaf = pred.clone().requires_grad_()
    whole = gar_loss(leaf, target, sample_weight=weight, **options)
    whole.backward()
    parts = [part.split(sizes) if part is not None else [None] * len(sizes) for part in (pred, target, weight)]
    group: Ranks = request.getfixturevalue("two" if len(sizes) == 2 else "three")
    results = group.run(sharded_loss, list(zip(*parts, strict=True)), options)
    for value, _ in results:
        torch.testing.assert_close(value, whole.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.cat([slopes for _, slopes in results]), leaf.grad, rtol=1e-10, atol=1e-13)


def test_shards_in_single_precision(two: Ranks) -> None:
    """Several targets in float32, far from zero: moments are merged in double precision."""
    pred, target = torch.randn(40, 3) + 1000, torch.randn(40, 3) + 1000
    leaf = pred.clone().requires_grad_()
    whole = gar_loss(leaf, target)
    whole.backward()
    shards = [(*part, None) for part in zip(pred.split((25, 15)), target.split((25, 15)), strict=True)]
    results = two.run(sharded_loss, shards, {})
    for value, _ in results:
        torch.testing.assert_close(value, whole.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat([slopes for _, slopes in results]), leaf.grad, rtol=1e-2, atol=1e-5)


def step_and_count(rank: int, world: int, rows: int) -> tuple[list[str], int, list[str], int]:
    """What the loss alone sends, and what a whole step under DDP does."""
    net = DistributedDataParallel(nn.Linear(3, 1).double())
    x, y = torch.randn(rows, 3, dtype=torch.float64), torch.randn(rows, 1, dtype=torch.float64)
    pred = net(x)
    with Traffic() as by_loss:
        value = GARLoss(process_group="world")(pred, y)
    with Traffic() as by_backward:
        value.backward()
    return by_loss.calls, by_loss.bytes, by_backward.calls, by_backward.bytes


@pytest.mark.parametrize("rows", [20, 20000])
def test_what_is_sent_does_not_grow_with_the_batch(two: Ranks, rows: int) -> None:
    """Nine numbers for the loss; the backward pass sends what DDP always does, the four gradients."""
    for calls, sent, later, sent_later in two.run(step_and_count, rows):
        assert len(calls) == 1
        assert sent == 9 * 8
        assert later == ["allreduce_"]
        assert sent_later == 4 * 8


def in_parts(rank: int, world: int, name: str, size: int) -> tuple[Tensor, Tensor, list[str]]:
    x, y, options = make_batch(weighted=True)
    mine = slice(0, 0) if rank == 0 else slice(0, 13) if rank == 1 and world == 3 else slice(13 if world == 3 else 0, None)
    net = DistributedDataParallel(make_net())
    chosen = {key: value[mine] for key, value in options.items()}
    with Traffic() as traffic:
        value = backward_in_parts(net, of_outputs(name, "world"), x[mine], y[mine], size=size, **chosen)
    return value, torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None]), traffic.calls


@pytest.mark.parametrize("name", ["gar", "ranksim"])
def test_parts_under_ddp(ranks: Ranks, name: str) -> None:
    """A rank without rows, others with different numbers of parts; gradients are exchanged once."""
    net = make_net()
    x, y, options = make_batch(weighted=True)
    whole = of_outputs(name, None)(net(x), y, **options)
    whole.backward()
    expected = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
    for value, gradient, calls in ranks.run(in_parts, name, 4):
        torch.testing.assert_close(value, whole.detach(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)
        assert calls.count("allreduce_") == 1


def equal_labels(rank: int, world: int) -> Tensor:
    torch.manual_seed(rank)  # ranks must agree, though each has random numbers of its own
    features = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))[rank * 4 : rank * 4 + 4]
    return ranksim_loss(features, torch.tensor([0.0, 1.0, 1.0, 2.0]), process_group="world")


def test_ranks_draw_the_same_of_rows_with_equal_labels(three: Ranks) -> None:
    first, *others = three.run(equal_labels)
    assert first > 0
    assert all(torch.equal(first, other) for other in others)


def second_derivative(rank: int, world: int) -> list[str]:
    messages = []
    for name in ("gar", "rnc"):
        x, y, _ = make_batch(weighted=False)
        net = make_net()
        value = of_outputs(name, "world")(net(x), y)
        try:
            torch.autograd.grad(value, list(net.parameters()), create_graph=True, allow_unused=True)
        except ValueError as error:
            messages.append(str(error))
    return messages


def test_second_derivatives_say_that_they_are_not_there(two: Ranks) -> None:
    for messages in two.run(second_derivative):
        assert len(messages) == 2
        assert all("not available with process_group" in message for message in messages)


def different_tables(rank: int, world: int) -> str:
    try:
        join_rows("world", torch.randn(3, 2), torch.ones(3) if rank else None, axis=0)
    except InputError as error:
        return str(error)
    return "no error"


def test_ranks_that_pass_different_tables(two: Ranks) -> None:
    """All of them hear of it, and none waits for ever."""
    assert all("[2, 3] numbers" in message for message in two.run(different_tables))


def test_tables_of_different_lengths(two: Ranks) -> None:
    assert all("same number of rows" in message for message in two.run(uneven_tables))


def uneven_tables(rank: int, world: int) -> str:
    try:
        join_rows("world", torch.randn(3, 2), torch.ones(4), axis=0)
    except InputError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("name", LOSSES)
def test_never_silently(name: str) -> None:
    """A group that is asked for must be there."""
    x, y, _ = make_batch(weighted=False)
    with pytest.raises(InputError, match="not initialised"):
        of_outputs(name, "world")(make_net()(x), y)
