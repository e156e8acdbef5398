"""G networks of one architecture as one: all weights in one matrix ``(G, numbers)``, activations ``(G, width, rows)``.

Rows run along the last dimension, so that narrow layers still give long, contiguous vectors to the matrix product.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from gar.errors import InputError

ALIGNMENT = 16
"""Every matrix of a model starts at a multiple of this many numbers. The matrix library then treats equal matrices alike, and their
products are equal bit for bit wherever in the stack they are."""

Activation = Literal["elu", "silu"]
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"elu": nn.ELU, "silu": nn.SiLU}

GATE_GAIN = 6.0
"""A feature gate is ``1 + GATE_GAIN * number``, so that gates move faster than weights."""


class LayerOffsets(NamedTuple):
    """Sizes of a layer, and the offsets of its weight ``(out, in)`` and bias ``(out,)`` in a row of weights."""

    inputs: int
    outputs: int
    weight: int
    bias: int


@dataclass(frozen=True)
class Layout:
    """Architecture of a network, and where each of its weights is stored.

    Args:
        sizes: widths of its layers: inputs, hidden..., targets.
        activation: activation between layers.
        feature_gates: whether every input is multiplied with a trained factor, which is 1 at first. Gates switch off uninformative
            inputs, which the many small weights of a layer do only slowly.
    """

    sizes: tuple[int, ...]
    activation: Activation = "elu"
    feature_gates: bool = False

    @cached_property
    def layers(self) -> tuple[LayerOffsets, ...]:
        """Return sizes and offsets, layer by layer."""
        layers, start = [], _aligned(self.sizes[0]) if self.feature_gates else 0
        for inputs, outputs in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            bias = start + _aligned(inputs * outputs)
            layers.append(LayerOffsets(inputs, outputs, start, bias))
            start = bias + _aligned(outputs)
        return tuple(layers)

    @cached_property
    def length(self) -> int:
        """Return the length of a row of weights, including the padding between matrices, which stays zero."""
        last = self.layers[-1]
        return last.bias + _aligned(last.outputs)

    @cached_property
    def parameter_count(self) -> int:
        """Return the number of weights, biases and gates of one model."""
        return sum(one.outputs * (one.inputs + 1) for one in self.layers) + (self.sizes[0] if self.feature_gates else 0)

    @property
    def head_start(self) -> int:
        """Return the offset of the last layer."""
        return self.layers[-1].weight

    def matrices(self, weights: Tensor) -> list[Tensor]:
        """Return views ``(G, out, in)`` of weights ``(G, length)``, layer by layer."""
        return [
            weights[:, one.weight : one.weight + one.inputs * one.outputs].view(-1, one.outputs, one.inputs) for one in self.layers
        ]

    def biases(self, weights: Tensor) -> list[Tensor]:
        """Return views ``(G, out, 1)`` of weights ``(G, length)``, layer by layer."""
        return [weights[:, one.bias : one.bias + one.outputs].unsqueeze(-1) for one in self.layers]

    def gates(self, weights: Tensor) -> Tensor:
        """Return a view ``(G, 1, inputs)`` of the numbers behind the gates; without gates, of no inputs."""
        return weights[:, : self.sizes[0] if self.feature_gates else 0].unsqueeze(1)

    def first_matrix(self, weights: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the matrix ``(G, out, in)`` that inputs are multiplied with: the first layer's, times the gates."""
        first = self.matrices(weights)[0]
        return torch.mul(first, 1.0 + GATE_GAIN * self.gates(weights), out=out) if self.feature_gates else first


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


class LayerViews:
    """Weights (or gradients) ``(G, length)`` with their views, layer by layer."""

    def __init__(self, layout: Layout, values: Tensor) -> None:
        self.layout, self.values = layout, values
        self.matrices, self.biases = layout.matrices(values), layout.biases(values)
        self.gates = layout.gates(values)


def initial_weights(layout: Layout, seeds: Sequence[int], *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return PyTorch's default initialisation ``(G, length)``.

    Row g holds what ``torch.manual_seed(seeds[g])`` and then ``nn.Linear`` for one layer after another would draw, in this dtype.
    Models with equal seeds start equal. The global generator is not touched.
    """
    rows = {seed: _initial_row(layout, seed, dtype) for seed in dict.fromkeys(seeds)}
    return torch.stack([rows[seed] for seed in seeds])


def _initial_row(layout: Layout, seed: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    row = torch.zeros(1, layout.length, dtype=dtype, device="cpu")
    views = LayerViews(layout, row)
    for weight, bias in zip(views.matrices, views.biases, strict=True):
        fan_in = weight.shape[-1]
        # torch.nn.init.kaiming_uniform_(a=sqrt(5)), operation by operation: a bound one bit off would change every weight.
        bound = math.sqrt(3.0) * (math.sqrt(2.0 / (1.0 + math.sqrt(5) ** 2)) / math.sqrt(fan_in))
        weight.copy_(torch.empty_like(weight).uniform_(-bound, bound, generator=generator))
        bias_bound = 1.0 / math.sqrt(fan_in)
        bias.copy_(torch.empty_like(bias).uniform_(-bias_bound, bias_bound, generator=generator))
    return row.squeeze(0)


class Output(NamedTuple):
    """Predictions ``(G, rows, targets)``, and the activations ``(G, rows, width)`` of the last hidden layer."""

    predictions: Tensor
    features: Tensor


class StackedMLP:
    """G networks of one architecture.

    Args:
        layout: their architecture.
        weights: all weights, ``(G, layout.length)``, a row per model.

    Example:
        >>> networks = StackedMLP.initial((8, 16, 1), seeds=[1, 2, 3])
        >>> networks(torch.zeros(5, 8)).predictions.shape
        torch.Size([3, 5, 1])
    """

    def __init__(self, layout: Layout, weights: Tensor) -> None:
        if weights.ndim != 2 or weights.shape[1] != layout.length:
            raise InputError(
                f"weights have shape {tuple(weights.shape)}; expected (models, {layout.length}) for sizes {layout.sizes}"
            )
        self.layout, self.weights = layout, weights

    @staticmethod
    def initial(sizes: Sequence[int], *, seeds: Sequence[int], dtype: torch.dtype = torch.float32) -> "StackedMLP":
        """Return untrained networks of these widths (features, hidden..., targets), one per seed."""
        if len(sizes) < 2 or min(sizes) < 1:
            raise InputError(f"sizes={tuple(sizes)} is no network; expected (features, hidden..., targets), all >= 1")
        layout = Layout(tuple(sizes))
        return StackedMLP(layout, initial_weights(layout, seeds, dtype=dtype))

    @staticmethod
    def from_modules(modules: Sequence[nn.Sequential]) -> "StackedMLP":
        """Return the stack of plain networks as :meth:`module` gives them: linear layers with one kind of activation between."""
        if not modules:
            raise InputError("modules is empty; expected one network or more")
        parts = [_inspect_module(module, index) for index, module in enumerate(modules)]
        layout, first = parts[0]
        weights = first[0].weight.detach().new_zeros(len(modules), layout.length)
        for index, (own, layers) in enumerate(parts):
            if own != layout:
                raise InputError(f"module {index} is {own}, module 0 {layout}; networks of a stack have one architecture")
            row = weights[index : index + 1]
            for layer, weight, bias in zip(layers, layout.matrices(row), layout.biases(row), strict=True):
                weight.copy_(layer.weight.detach().unsqueeze(0))
                bias.copy_(layer.bias.detach().reshape(bias.shape))
        return StackedMLP(layout, weights)

    def __len__(self) -> int:
        return len(self.weights)

    @staticmethod
    def joined(stacks: Sequence["StackedMLP"]) -> "StackedMLP":
        """Return the networks of several stacks, all of one architecture, as one stack."""
        return StackedMLP(stacks[0].layout, torch.cat([stack.weights for stack in stacks]))

    def take(self, indices: Sequence[int]) -> "StackedMLP":
        """Return the networks at these indices, in this order."""
        return StackedMLP(self.layout, self.weights[list(indices)])

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Output:
        """Return predictions and features for rows ``(rows, features)``, or for other rows per model ``(G, rows, features)``."""
        hidden = x.to(self.weights).expand(len(self), *x.shape[-2:]).mT
        activate = ACTIVATIONS[self.layout.activation]()
        *inner, last = zip(self._matrices(self.weights), self.layout.biases(self.weights), strict=True)
        for weight, bias in inner:
            hidden = activate(torch.baddbmm(bias, weight, hidden))
        return Output(torch.baddbmm(last[1], last[0], hidden).mT, hidden.mT)

    def _matrices(self, weights: Tensor) -> list[Tensor]:
        """Return the matrices layer by layer, the gates included in the first."""
        return [self.layout.first_matrix(weights), *self.layout.matrices(weights)[1:]]

    def module(self, index: int) -> nn.Sequential:
        """Return model ``index`` as a plain network of its own; its gates become part of the first layer."""
        row = self.weights[index : index + 1]
        layers: list[nn.Module] = []
        for weight, bias in zip(self._matrices(row), self.layout.biases(row), strict=True):
            linear = nn.Linear(weight.shape[2], weight.shape[1], dtype=row.dtype, device="meta")  # no random numbers are drawn
            linear.weight, linear.bias = nn.Parameter(weight[0].clone()), nn.Parameter(bias[0, :, 0].clone())
            layers += [linear, ACTIVATIONS[self.layout.activation]()]
        return nn.Sequential(*layers[:-1])


def _inspect_module(module: nn.Sequential, index: int) -> tuple[Layout, list[nn.Linear]]:
    """Return layout and linear layers of a plain network; an error names the first layer that a stack cannot have."""
    activation: Activation = "silu" if len(module) > 1 and isinstance(module[1], nn.SiLU) else "elu"
    linear: list[nn.Linear] = []
    for number, layer in enumerate(module):
        if number % 2 == 0 and isinstance(layer, nn.Linear) and layer.bias is not None:
            linear.append(layer)
        elif number % 2 == 0 or not _is_activation(layer, activation):
            raise InputError(
                f"layer {number} of module {index} is {layer}; expected nn.Linear with a bias and, between each two, one and the "
                f"same activation: {' or '.join(f'nn.{kind.__name__}()' for kind in ACTIVATIONS.values())}"
            )
    if len(module) % 2 == 0:
        raise InputError(f"module {index} has {len(module)} layers; expected a network that begins and ends with nn.Linear")
    return Layout((linear[0].in_features, *(layer.out_features for layer in linear)), activation), linear


def _is_activation(layer: nn.Module, name: Activation) -> bool:
    return isinstance(layer, ACTIVATIONS[name]) and getattr(layer, "alpha", 1.0) == 1.0
