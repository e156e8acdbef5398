"""Parts of a batch give the gradients of the whole, with the memory of a part."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gar import ConRLoss, GARLoss, RankNContrastLoss, RankSimLoss
from gar.accumulation import WholeBatch, backward_in_parts
from gar.errors import InputError
from gar.functional.grouped import GroupReduction

ROWS = 150


class Net(nn.Module):
    def __init__(self, drop: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Dropout(drop), nn.Linear(16, 8), nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return self.head(features), features


def gar(out: Any, y: Tensor, **more: Any) -> Tensor:
    return GARLoss(0.5)(out[0], y, **more)


LOSSES: dict[str, Callable[..., Tensor]] = {
    "gar": gar,
    "gar as a power mean": lambda out, y, **more: GARLoss(form="exp", components=("diff", "diffnorm"))(out[0], y, **more),
    "ranksim": lambda out, y, **more: RankSimLoss(gamma=1.0)(out[0], y, out[1], **more),
    "rnc": lambda out, y, **more: RankNContrastLoss()(out[1], y, **more),
    "conr": lambda out, y, **more: ConRLoss(window=0.5)(out[0], y, out[1], **more),
}


def batch() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    x, y = torch.randn(ROWS, 5, dtype=torch.float64), torch.randn(ROWS, 2, dtype=torch.float64)
    return x, y, {"sample_weight": torch.rand(ROWS, dtype=torch.float64), "mask": torch.rand(ROWS) > 0.3}


@pytest.mark.parametrize("reduction", ["pooled", "mean"])
def test_groups_may_lie_in_several_parts(reduction: GroupReduction) -> None:
    net, (x, y, options), groups = Net().double(), batch(), torch.randint(4, (ROWS,))
    loss = GARLoss(0.5, group_reduction=reduction)
    whole = loss(net(x)[0], y, groups=groups, **options)
    whole.backward()
    expected = gradients(net)
    value = backward_in_parts(net, lambda out, y, **more: loss(out[0], y, **more), x, y, size=7, groups=groups, **options)
    torch.testing.assert_close(value, whole.detach())
    torch.testing.assert_close(gradients(net), expected)


def gradients(net: nn.Module) -> Tensor:
    found = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in net.parameters()])
    net.zero_grad()
    return found


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights and mask"])
@pytest.mark.parametrize("name", LOSSES)
def test_parts_give_the_gradients_of_the_whole(name: str, weighted: bool, size: int) -> None:
    net, (x, y, options) = Net().double(), batch()
    options = options if weighted else {}
    whole = LOSSES[name](net(x), y, **options)
    whole.backward()
    expected = gradients(net)
    value = backward_in_parts(net, LOSSES[name], x, y, size=size, **options)
    torch.testing.assert_close(value, whole.detach(), rtol=1e-12, atol=1e-12)
    assert not value.requires_grad
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(gradients(net), expected, rtol=1e-9, atol=1e-11)


def test_the_mean_of_parts_is_something_else() -> None:
    """The question that this module answers: the usual accumulation is off by far more than rounding."""
    net, (x, y, _) = Net().double(), batch()
    gar(net(x), y).backward()
    expected = gradients(net)
    for rows in torch.arange(ROWS).split(10):
        (gar(net(x[rows]), y[rows]) * len(rows) / ROWS).backward()
    assert (gradients(net) - expected).norm() > 0.05 * expected.norm()


def test_gradients_add_to_what_is_there() -> None:
    net, (x, y, _) = Net().double(), batch()
    backward_in_parts(net, gar, x, y, size=40)
    once = gradients(net)
    for _ in range(2):
        backward_in_parts(net, gar, x, y, size=40)
    torch.testing.assert_close(gradients(net), 2 * once)


@contextmanager
def largest_graph() -> Any:
    """The most bytes that graphs hold at one time."""
    peak = {"now": 0, "most": 0}

    class Held:
        def __init__(self, value: Tensor) -> None:
            self.value = value
            peak["now"] += value.nbytes
            peak["most"] = max(peak["most"], peak["now"])

        def __del__(self) -> None:
            peak["now"] -= self.value.nbytes

    with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.value):
        yield peak


def test_memory_is_that_of_one_part() -> None:
    net, x, y = Net().double(), torch.randn(640, 5, dtype=torch.float64), torch.randn(640, 2, dtype=torch.float64)
    with largest_graph() as of_parts:
        backward_in_parts(net, gar, x, y, size=64)
    with largest_graph() as of_one_part:
        gar(net(x[:64]), y[:64]).backward()
    with largest_graph() as of_all:
        gar(net(x), y).backward()
    outputs = 640 * (2 + 8) * 8  # of all rows, and their gradients: what the loss itself looks at
    assert of_parts["most"] <= of_one_part["most"] + 2 * outputs
    assert of_parts["most"] < 0.5 * of_all["most"]


def test_dropout_draws_the_same_in_both_passes() -> None:
    """Against one graph of all parts, made with the same random numbers; afterwards the generator stands where it would."""
    net, (x, y, _) = Net(drop=0.5).double(), batch()
    torch.manual_seed(7)
    outputs = [net(part) for part in x.split(32)]
    gar((torch.cat([out[0] for out in outputs]),), y).backward()
    expected, after = gradients(net), torch.get_rng_state()
    torch.manual_seed(7)
    backward_in_parts(net, gar, x, y, size=32)
    torch.testing.assert_close(gradients(net), expected, rtol=1e-9, atol=1e-12)
    assert torch.equal(torch.get_rng_state(), after)


def test_dropout_without_the_same_numbers_is_noticed() -> None:
    net, (x, y, _) = Net(drop=0.5).double(), batch()
    whole = WholeBatch(gar)
    whole.add(net(x))
    whole.evaluate(y)
    with pytest.raises(InputError, match="dropout"):
        whole.part(net(x))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def test_batch_normalisation() -> None:
    """In training mode it sees parts, as the docstring warns; in evaluation mode parts equal the whole."""
    net, (x, y, _) = Normalised().double(), batch()
    differences = []
    for training in (True, False):
        net.train(training)
        GARLoss()(net(x), y).backward()
        expected = gradients(net)
        backward_in_parts(net, GARLoss(), x, y, size=30)
        differences.append(float((gradients(net) - expected).norm() / expected.norm()))
    assert differences[0] > 1e-3
    assert differences[1] < 1e-9


def test_several_inputs() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(5, 1), nn.Linear(5, 1)

        def forward(self, x: Tensor, z: Tensor) -> Tensor:
            return self.one(x) + self.other(z)

    net, (x, y, _) = Sum().double(), batch()
    GARLoss()(net(x, x**2), y[:, :1]).backward()
    expected = gradients(net)
    backward_in_parts(net, GARLoss(), (x, x**2), y[:, :1], size=40)
    torch.testing.assert_close(gradients(net), expected, rtol=1e-9, atol=1e-12)


def test_scaled_as_by_a_gradient_scaler() -> None:
    net, (x, y, _) = Net().double(), batch()
    whole = WholeBatch(LOSSES["ranksim"])
    with torch.no_grad():
        for part in x.split(50):
            whole.add(net(part))
    value = whole.evaluate(y)
    for part in x.split(50):
        loss = whole.part(net(part))
        torch.testing.assert_close(loss.detach(), value)
        (loss * 8.0).backward()
    scaled = gradients(net)
    LOSSES["ranksim"](net(x), y).backward()
    torch.testing.assert_close(scaled, 8.0 * gradients(net), rtol=1e-9, atol=1e-12)


def test_an_empty_batch_has_no_gradient() -> None:
    net, (x, y, _) = Net().double(), batch()
    backward_in_parts(net, gar, x[:0], y[:0])
    assert not gradients(net).any()


def test_misuse_is_explained() -> None:
    net, (x, y, _) = Net().double(), batch()
    with pytest.raises(InputError, match="size=0"):
        backward_in_parts(net, gar, x, y, size=0)
    with pytest.raises(InputError, match=r"\[10, 150\] rows"):
        backward_in_parts(net, gar, x, y[:10])
    with pytest.raises(InputError, match="no part was added"):
        WholeBatch(gar).evaluate(y)
    whole = WholeBatch(gar)
    whole.add(net(x))
    with pytest.raises(InputError, match="no such part"):
        whole.part(net(x))
    whole.evaluate(y)
    with pytest.raises(InputError, match="new WholeBatch"):
        whole.add(net(x))
    with pytest.raises(InputError, match=r"shape \(150, 2\)"):
        whole.part(net(x[:3]))
    whole = WholeBatch(lambda out, y: (out[0] - y).square().mean(0))
    whole.add(net(x))
    with pytest.raises(InputError, match="one number"):
        whole.evaluate(y)
