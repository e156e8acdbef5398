"""One loss over several real processes: gloo on this machine, exact for any shards."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.parallel import DistributedDataParallel

from gar import ConRLoss, GARLoss, RankNContrastLoss, RankSimLoss
from gar.accumulation import backward_in_parts
from gar.errors import InputError
from gar.functional import aggregate, gar_loss, rank_n_contrast_loss, ranksim_loss
from gar.functional.exchange import join_rows
from tests.processes import Ranks, Traffic, refusal

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


def step_and_count(rank: int, world: int, rows: int, targets: int) -> list[tuple[int, int, list[str], int]]:
    """What the loss alone sends, and what the rest of a step under DDP does: in three steps, of a group that has sent nothing."""
    net = DistributedDataParallel(nn.Linear(3, targets).double())
    x, y = torch.randn(rows, 3, dtype=torch.float64), torch.randn(rows, targets, dtype=torch.float64)
    loss, found = GARLoss(process_group=torch.distributed.new_group()), []
    for _ in range(3):
        pred = net(x)
        with Traffic() as by_loss:
            value = loss(pred, y)
        with Traffic() as by_backward:
            value.backward()
        found.append((len(by_loss.calls), by_loss.bytes, by_backward.calls, by_backward.bytes))
    return found


@pytest.mark.parametrize("rows", [20, 20000])
def test_what_is_sent_does_not_grow_with_the_batch(two: Ranks, rows: int) -> None:
    """Nine numbers for each target and one for all; the backward pass sends what DDP always does, the gradients."""
    for steps in two.run(step_and_count, rows, 1):
        assert steps == [(1, 10 * 8, ["allreduce_"], 4 * 8)] * 3
    for first, *later in two.run(step_and_count, rows, 5):
        assert first[0] == 2  # the ranks learn that each has five targets
        assert later == [(1, 46 * 8, ["allreduce_"], 20 * 8)] * 2


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


def whole_labels(rank: int, world: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    features = torch.zeros(8, 2, dtype=dtype)
    labels, mask = torch.arange(1000 + 8 * rank, 1008 + 8 * rank), torch.ones(8, dtype=torch.bool)
    weight = torch.full((8,), 16_777_217 + rank, dtype=torch.int32)
    return join_rows("world", features, labels, weight, mask, axis=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_whole_numbers_are_not_rounded_on_their_way(two: Ranks, dtype: torch.dtype) -> None:
    for features, labels, weight, mask in two.run(whole_labels, dtype):
        assert features.dtype == dtype
        assert labels.tolist() == list(range(1000, 1016))
        assert weight.tolist() == [16_777_217] * 8 + [16_777_218] * 8
        assert mask.dtype == torch.bool
        assert mask.all()


def half_features(rank: int, world: int, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    mine = slice(8 * rank, 8 * rank + 8)
    leaf = features[mine].clone().requires_grad_()
    value = RankNContrastLoss(process_group="world")(leaf, labels[mine])
    (65536.0 * value).backward()
    assert leaf.grad is not None
    return value.detach(), leaf.grad.float() / (65536.0 * world)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_features_in_half_precision_with_whole_labels(two: Ranks, dtype: torch.dtype) -> None:
    features, labels = torch.randn(16, 3).to(dtype), torch.randperm(16) + 1000
    leaf = features.float().requires_grad_()
    whole = RankNContrastLoss()(leaf, labels)
    whole.backward()
    results = two.run(half_features, features, labels)
    for value, _ in results:
        torch.testing.assert_close(value, whole.detach())
    torch.testing.assert_close(torch.cat([slopes for _, slopes in results]), leaf.grad, rtol=0.02, atol=1e-5)


def asks_for_no_gradient(rank: int, world: int) -> list[bool]:
    tables = join_rows("world", torch.randn(3, 2, requires_grad=True), torch.randn(3), torch.ones(3), axis=0)
    return [table.requires_grad for table in tables]


def test_only_what_needs_a_gradient_gets_one(two: Ranks) -> None:
    """Labels travel with features, and stay labels, so the closed form applies."""
    assert two.run(asks_for_no_gradient) == [[True, False, False]] * 2


def parameter_gradients(rank: int, world: int) -> tuple[Tensor, Tensor]:
    x, y, options = make_batch(weighted=True)
    mine, weight = x.tensor_split(world)[rank], options["sample_weight"].tensor_split(world)[rank].clone().requires_grad_()
    temperature = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    rank_n_contrast_loss(
        mine, y.tensor_split(world)[rank], temperature=temperature, sample_weight=weight, process_group="world"
    ).backward()
    assert weight.grad is not None
    assert temperature.grad is not None
    return weight.grad / world, temperature.grad


def test_gradients_by_weights_and_temperature(two: Ranks) -> None:
    x, y, options = make_batch(weighted=True)
    weight = options["sample_weight"].clone().requires_grad_()
    temperature = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    rank_n_contrast_loss(x, y, temperature=temperature, sample_weight=weight).backward()
    results = two.run(parameter_gradients)
    torch.testing.assert_close(torch.cat([by_weight for by_weight, _ in results]), weight.grad)
    for _, by_temperature in results:
        torch.testing.assert_close(by_temperature, temperature.grad)


def one_bad_number(rank: int, world: int, where: str, bad: float, options: dict[str, Any]) -> str:
    """The last rank has a bad label, or a bad prediction."""
    numbers = {"pred": torch.randn(6, 2), "target": torch.randn(6, 2)}
    if rank == world - 1:
        numbers[where][4, 1] = bad
    loss = GARLoss(process_group="world", **options)
    return refusal(lambda: float(loss(numbers["pred"].requires_grad_(), numbers["target"]).detach()))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("options", [{}, {"pairs": "targets"}], ids=["batch", "targets"])
def test_a_bad_label_is_an_error_on_all_ranks(ranks: Ranks, bad: float, options: dict[str, Any]) -> None:
    """None goes on to wait for the one that has stopped."""
    *others, own = ranks.run(one_bad_number, "target", bad, options)
    assert "target has 1 NaN or infinite of 12 values" in own
    for message in others:
        assert message == f"process {len(others)} refused its batch: {own}"
        assert "nan_policy='omit'" in message


@pytest.mark.parametrize("options", [{}, {"pairs": "targets"}], ids=["batch", "targets"])
def test_what_is_no_bad_label(two: Ranks, options: dict[str, Any]) -> None:
    """A broken prediction stays visible, a label that overflows its sum is a label, and a policy is one for all ranks."""
    assert two.run(one_bad_number, "pred", torch.nan, options) == ["no error: nan"] * 2
    assert all(message.startswith("no error") for message in two.run(one_bad_number, "target", 3e38, options))
    assert two.run(one_bad_number, "target", torch.nan, {**options, "nan_policy": "propagate"}) == ["no error: nan"] * 2
    left_out = two.run(one_bad_number, "target", torch.nan, {**options, "nan_policy": "omit"})
    assert left_out[0] == left_out[1] != "no error: nan"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"pred": torch.randn(6, 1)}, "pred has shape (6, 1), target (6, 2)"),
    "rows": ({"target": torch.randn(5, 2)}, "target (5, 2)"),
    "type": ({"pred": torch.ones(6, 2, dtype=torch.int64)}, "pred has dtype torch.int64"),
    "kind": ({"pred": [1.0]}, "pred is a list"),
    "weight": ({"sample_weight": -torch.ones(6)}, "sample_weight contains -1.0"),
    "shape of the weight": ({"sample_weight": torch.ones(7)}, "sample_weight has shape (7,)"),
    "mask": ({"mask": torch.ones(6)}, "mask has dtype torch.float32"),
    "gradient": ({"target": torch.randn(6, 2, requires_grad=True)}, "target.detach()"),
    "targets": ({"pred": torch.randn(6, 3), "target": torch.randn(6, 3)}, "process {last} has 9 sums of models and targets (3,)"),
    "one target": ({"pred": torch.randn(6), "target": torch.randn(6)}, "process {last} has 9 sums of models and targets ()"),
    "models": (
        {"pred": torch.randn(4, 6, 2), "target": torch.randn(4, 6, 2), "sample_weight": None, "mask": None},
        "models and targets (4, 2)",
    ),
}


def one_wrong_batch(rank: int, world: int, wrong: dict[str, Any]) -> list[str]:
    """Return what each rank hears of a loss, and of its components; the last one has a wrong batch. Afterwards all is well."""
    batch = {"pred": torch.randn(6, 2), "target": torch.randn(6, 2), "sample_weight": torch.ones(6), "mask": torch.ones(6) > 0}
    loss, mine = GARLoss(process_group="world"), batch | wrong if rank == world - 1 else batch
    messages = [refusal(lambda: loss(**mine))]
    if not isinstance(wrong.get("target"), Tensor) or not wrong["target"].requires_grad:  # components have no gradient
        messages.append(refusal(lambda: loss.components_of(**mine)))
    assert loss(**batch).isfinite()
    return messages


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_batch_is_an_error_on_all_ranks(ranks: Ranks, name: str) -> None:
    """Each with the reason, and with other shapes, which give messages of other sizes."""
    wrong, reason = WRONG[name]
    for messages in ranks.run(one_wrong_batch, wrong):
        for message in messages:
            assert reason.format(last=ranks.world - 1) in message


WRONG_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "labels": ({"target": torch.randn(5, 2)}, "target (5, 2)"),
    "kind": ({"features": None}, "features is a NoneType"),
    "weight": ({"sample_weight": -torch.ones(6)}, "sample_weight contains -1.0"),
    "mask": ({"mask": torch.ones(6)}, "mask has dtype torch.float32"),
    "no mask": ({"mask": None}, "has rows of shapes [(3,), (2,), (), None"),
    "width": ({"features": torch.randn(6, 4)}, "has rows of shapes [(4,), (2,), (), ()"),
    "type": ({"features": torch.randn(6, 3).double()}, "and dtypes [torch.float64, torch.float32, "),
    "whole labels": ({"target": torch.ones(6, 2, dtype=torch.int8)}, "and dtypes [torch.float32, torch.int8, "),
}


def one_wrong_table(rank: int, world: int, name: str, wrong: dict[str, Any]) -> str:
    batch = {"features": torch.randn(6, 3), "target": torch.randn(6, 2), "sample_weight": torch.ones(6), "mask": torch.ones(6) > 0}
    mine = batch | wrong if rank == world - 1 else batch
    loss = LOSSES[name]("world")

    def value(features: Any, target: Any, **more: Any) -> Tensor:
        return loss(features, target, **more) if name == "rnc" else loss(torch.zeros(target.shape), target, features, **more)

    message = refusal(lambda: value(**mine))
    assert value(**batch).isfinite()
    return message


def whole_predictions(rank: int, world: int, name: str) -> str:
    pred, target, features = torch.randn(6, 2), torch.randn(6, 2), torch.randn(6, 3)
    return refusal(lambda: LOSSES[name]("world")(pred.short() if rank else pred, target, features))


@pytest.mark.parametrize("name", ["ranksim", "conr"])
def test_predictions_without_a_gradient_are_an_error_on_all_ranks(two: Ranks, name: str) -> None:
    assert all("pred has dtype torch.int16" in message for message in two.run(whole_predictions, name))


def another_number_of_targets(rank: int, world: int) -> str:
    pred, target = torch.randn(2, 6, 2 + rank)
    return refusal(lambda: GARLoss(process_group="world", pairs="targets")(pred, target))


def test_another_number_of_targets_is_an_error_on_all_ranks(two: Ranks) -> None:
    """Though sums over the pairs of a row would have the same size."""
    for message in two.run(another_number_of_targets):
        assert "process 0 has 4 sums of models () and 2 targets; process 1 has 4 sums of models () and 3 targets" in message


@pytest.mark.parametrize("wrong", WRONG_ROWS)
@pytest.mark.parametrize("name", ["ranksim", "rnc", "conr"])
def test_wrong_features_are_an_error_on_all_ranks(two: Ranks, name: str, wrong: str) -> None:
    changed, reason = WRONG_ROWS[wrong]
    assert all(reason in message for message in two.run(one_wrong_table, name, changed))


def one_wrong_part(rank: int, world: int) -> list[str]:
    """Return what each rank hears if one of them has a label too few, or a column too many."""
    net, loss = DistributedDataParallel(nn.Linear(3, 1)), GARLoss(process_group="world")
    x, y = torch.randn(9, 3), torch.randn(9, 1)
    labels, columns = (y[:8], torch.randn(9, 4)) if rank else (y, x)
    messages = [refusal(lambda: backward_in_parts(net, loss, x, labels, size=4))]
    try:
        messages.append(refusal(lambda: backward_in_parts(net, loss, columns, y, size=4)))
    except RuntimeError as error:  # of the network itself
        messages.append(str(error))
    assert backward_in_parts(net, loss, x, y, size=4).isfinite()
    return messages


def test_a_wrong_part_is_an_error_on_all_ranks(two: Ranks) -> None:
    for labels, columns in two.run(one_wrong_part):
        assert "x and target have [8, 9] rows" in labels
        assert "cannot be multiplied" in columns


def parts_and_loss(rank: int, world: int, options: dict[str, Any], sizes: list[int]) -> tuple[dict[str, Tensor], Tensor, list[str]]:
    x, y, more = make_batch(weighted=True)
    pred, target, *extras = (values.split(sizes)[rank] for values in (x[:, :2], y, *more.values()))
    loss, chosen = GARLoss(process_group="world", **options), dict(zip(more, extras, strict=True))
    with Traffic() as traffic:
        parts = loss.components_of(pred, target, **chosen)
    return parts, loss(pred, target, **chosen), traffic.calls


@pytest.mark.parametrize("options", [{"alpha": 0.5}, {"alpha": 0.5, "pairs": "targets"}], ids=["batch", "targets"])
@pytest.mark.parametrize("sizes", [[8, 13], [0, 21]], ids=str)
def test_components_are_those_of_the_joined_batch(two: Ranks, options: dict[str, Any], sizes: list[int]) -> None:
    """On every rank alike, and those that the loss is made of."""
    x, y, more = make_batch(weighted=True)
    expected = GARLoss(**options).components_of(x[:, :2], y, **more)
    for parts, value, calls in two.run(parts_and_loss, options, sizes):
        assert list(parts) == ["mae", "diff", "diffnorm"]
        torch.testing.assert_close(parts, expected, rtol=1e-11, atol=1e-13)
        torch.testing.assert_close(aggregate(list(parts.values()), alpha=0.5, eps=1e-7), value, rtol=1e-11, atol=1e-13)
        assert len(calls) == 1


def test_components_of_a_single_column(two: Ranks) -> None:
    """Whose moments are plain numbers."""
    for parts, expected in two.run(parts_of_one_column):
        torch.testing.assert_close(parts, expected)


def parts_of_one_column(rank: int, world: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    pred, target = torch.randn(2, 15)
    mine = slice(0, 4) if rank == 0 else slice(4, 15)
    return GARLoss(process_group="world").components_of(pred[mine], target[mine]), GARLoss().components_of(pred, target)


def equal_labels(rank: int, world: int) -> Tensor:
    torch.manual_seed(rank)  # ranks must agree, though each has random numbers of its own
    features = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))[rank * 4 : rank * 4 + 4]
    return ranksim_loss(features, torch.tensor([0.0, 1.0, 1.0, 2.0]), process_group="world")


def test_ranks_draw_the_same_of_rows_with_equal_labels(three: Ranks) -> None:
    first, *others = three.run(equal_labels)
    assert first > 0
    assert all(torch.equal(first, other) for other in others)


def second_derivative(rank: int, world: int, name: str) -> str:
    x, y, _ = make_batch(weighted=False)
    net = make_net()
    value = of_outputs(name, "world")(net(x), y)
    return refusal(lambda: torch.autograd.grad(value, list(net.parameters()), create_graph=True, allow_unused=True))


@pytest.mark.parametrize("name", ["gar", "rnc"])
def test_second_derivatives_are_refused(two: Ranks, name: str) -> None:
    assert all("second derivatives are not available with process_group" in message for message in two.run(second_derivative, name))


def unwanted_derivatives(rank: int, world: int) -> list[str]:
    pred, target = torch.randn(2, 5)
    alpha = torch.tensor(1.0, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(pred, pred)
        return [
            refusal(lambda: gar_loss(dual, target, process_group="world")),
            refusal(lambda: gar_loss(pred, target, alpha=alpha, process_group="world")),
        ]


def test_other_derivatives_are_refused(two: Ranks) -> None:
    for forward, by_alpha in two.run(unwanted_derivatives):
        assert "forward-mode derivatives are not available with process_group" in forward
        assert "alpha.detach()" in by_alpha


def different_tables(rank: int, world: int) -> str:
    return refusal(lambda: join_rows("world", torch.randn(3, 2), torch.ones(3) if rank else None, axis=0))


def test_ranks_that_pass_different_tables(two: Ranks) -> None:
    """All of them raise, and none waits for ever."""
    for message in two.run(different_tables):
        assert "process 0 has rows of shapes [(2,), None]" in message
        assert "process 1 has rows of shapes [(2,), ()]" in message


def test_tables_of_different_lengths(two: Ranks) -> None:
    assert all("same number of rows" in message for message in two.run(uneven_tables))


def uneven_tables(rank: int, world: int) -> str:
    return refusal(lambda: join_rows("world", torch.randn(3, 2), torch.ones(4), axis=0))


@pytest.mark.parametrize("name", LOSSES)
def test_never_silently(name: str) -> None:
    """A group that is asked for must be there."""
    x, y, _ = make_batch(weighted=False)
    with pytest.raises(InputError, match="not initialised"):
        of_outputs(name, "world")(make_net()(x), y)
