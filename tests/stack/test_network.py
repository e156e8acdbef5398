"""The stacked network and the plain networks it stands for."""

import copy

import pytest
import torch
from torch import nn

from gar.errors import InputError
from gar.stack import Layout, StackedMLP
from gar.stack.passes import ModelSpan, Workspace
from tests.stack.plain import plain_network

SIZES = [(8, 16, 32, 16, 8, 1), (3, 5, 2), (4, 1), (1, 100, 100, 3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_initial_weights_are_pytorchs(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    stack = StackedMLP.initial(sizes, seeds=[3, 11, 3], dtype=dtype)
    for index, seed in enumerate([3, 11, 3]):
        plain = plain_network(sizes, seed, dtype)
        for mine, other in zip(stack.module(index).parameters(), plain.parameters(), strict=True):
            assert torch.equal(mine, other)


@pytest.mark.parametrize("sizes", SIZES)
def test_predictions_and_features(sizes: tuple[int, ...]) -> None:
    networks = [plain_network(sizes, seed) for seed in range(4)]
    stack = StackedMLP.from_modules(networks)
    shared, own = torch.randn(7, sizes[0], dtype=torch.float64), torch.randn(4, 7, sizes[0], dtype=torch.float64)
    for x in (shared, own):
        output = stack(x)
        for index, network in enumerate(networks):
            rows = x if x.ndim == 2 else x[index]
            torch.testing.assert_close(output.predictions[index], network(rows))
            torch.testing.assert_close(output.features[index], network[:-1](rows))


def test_there_and_back() -> None:
    stack = StackedMLP.initial((5, 7, 3, 2), seeds=[1, 2, 3])
    again = StackedMLP.from_modules([stack.module(index) for index in range(3)])
    assert torch.equal(stack.weights, again.weights)
    assert len(again) == 3
    assert again.layout == copy.deepcopy(stack.layout)


def test_layout_counts() -> None:
    layout = Layout((8, 16, 32, 16, 8, 1))
    assert layout.parameter_count == 144 + 544 + 528 + 136 + 9
    assert layout.length % 16 == 0


@pytest.mark.parametrize("block", [1, 2, 100])
@pytest.mark.parametrize("sizes", SIZES)
def test_gradient_is_autograds(sizes: tuple[int, ...], block: int) -> None:
    """The backward pass by hand against autograd, for gradients that come from predictions, features or both."""
    networks = [plain_network(sizes, seed) for seed in range(5)]
    stack = StackedMLP.from_modules(networks)
    x = 3.0 * torch.randn(2, sizes[0], 32, dtype=torch.float64)
    spans = (ModelSpan(0, 3, 1), ModelSpan(3, 5, 0))
    space = Workspace(stack.layout, stack.weights, spans, 32, block, training=True)
    space.forward(x)
    by_prediction = torch.randn(5, sizes[-1], 32, dtype=torch.float64)
    by_feature = torch.randn(5, sizes[-2], 32, dtype=torch.float64) if len(sizes) > 2 else None
    for wanted in ((by_prediction, None), (None, by_feature), (by_prediction, by_feature)):
        for part in space.blocks:
            part.backward(x, *wanted)
            _check_block(part.gradients.matrices, part.gradients.biases, networks[part.models], x, spans, part.models, wanted)


def _check_block(
    weights: list[torch.Tensor],
    biases: list[torch.Tensor],
    networks: list[torch.nn.Sequential],
    x: torch.Tensor,
    spans: tuple[ModelSpan, ...],
    models: slice,
    wanted: tuple[torch.Tensor | None, torch.Tensor | None],
) -> None:
    for here, network in enumerate(networks):
        index = models.start + here
        rows = x[next(span.source for span in spans if span.start <= index < span.stop)].T
        features = network[:-1](rows)
        outputs = (network[-1](features), features)
        total = sum((out * w[index].T).sum() for out, w in zip(outputs, wanted, strict=True) if w is not None)
        if not isinstance(total, torch.Tensor):
            continue
        parameters = list(network.parameters())
        expected = torch.autograd.grad(total, parameters, allow_unused=True)
        for layer in range(len(weights)):
            weight, bias = expected[2 * layer], expected[2 * layer + 1]
            if weight is not None and bias is not None:
                torch.testing.assert_close(weights[layer][here], weight)
                torch.testing.assert_close(biases[layer][here, :, 0], bias)


def test_errors() -> None:
    with pytest.raises(InputError, match="no network"):
        StackedMLP.initial((3,), seeds=[1])
    with pytest.raises(InputError, match="expected \\(models"):
        StackedMLP(Layout((3, 2)), torch.zeros(4, 5))
    with pytest.raises(InputError, match="modules is empty"):
        StackedMLP.from_modules([])


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.ELU()], r"layer 0 of module 1 is ELU"),
        ([nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)], r"layer 1 of module 1 is ReLU"),
        ([nn.Linear(2, 4), nn.ELU(alpha=0.5), nn.Linear(4, 1)], r"layer 1 of module 1 is ELU\(alpha=0.5\)"),
        ([nn.Linear(2, 4), nn.SiLU(), nn.Linear(4, 3), nn.ELU(), nn.Linear(3, 1)], r"layer 3 of module 1 is ELU"),
        ([nn.Linear(2, 4, bias=False), nn.ELU(), nn.Linear(4, 1)], r"layer 0 of module 1 is Linear\(.*bias=False"),
        ([nn.Linear(2, 4), nn.ELU(), nn.Linear(4, 1), nn.ELU()], "module 1 has 4 layers"),
        ([nn.Linear(2, 5), nn.ELU(), nn.Linear(5, 1)], "networks of a stack have one architecture"),
    ],
)
def test_networks_that_are_no_stack(layers: list[nn.Module], message: str) -> None:
    """Another network must not quietly become one of the stack's kind."""
    right = nn.Sequential(nn.Linear(2, 4), nn.ELU(), nn.Linear(4, 1))
    with pytest.raises(InputError, match=message):
        StackedMLP.from_modules([right, nn.Sequential(*layers)])
