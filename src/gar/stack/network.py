"""G networks of one architecture as one: all weights in one table ``(G, numbers)``, activations ``(G, width, rows)``.

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
"""Every matrix starts at a multiple of so many numbers: products of equal matrices are then equal bit for bit wherever in the
stack they stand, because the matrix library treats all of them alike."""

Activation = Literal["elu", "silu"]
ACTIVATIONS: dict[Activation, type[nn.Module]] = {"elu": nn.ELU, "silu": nn.SiLU}

GATE_GAIN = 6.0
"""How much faster gates move than weights: a gate is one plus so many times its number in the table."""


class LayerPlace(NamedTuple):
    """Where the weight ``(out, in)`` and the bias ``(out,)`` of a layer begin in a row of the table."""

    inputs: int
    outputs: int
    weight: int
    bias: int


@dataclass(frozen=True)
class Layout:
    """What a network is, and where each of its numbers is kept.

    Args:
        sizes: widths of its layers: inputs, hidden..., targets.
        activation: between layers.
        gates: whether every input is multiplied with a factor that is learned too, which is one at first. It turns off inputs that
            tell nothing, which the many small weights of a layer do only slowly.
    """

    sizes: tuple[int, ...]
    activation: Activation = "elu"
    gates: bool = False

    @cached_property
    def places(self) -> tuple[LayerPlace, ...]:
        places, start = [], _aligned(self.sizes[0]) if self.gates else 0
        for inputs, outputs in zip(self.sizes[:-1], self.sizes[1:], strict=True):
            bias = start + _aligned(inputs * outputs)
            places.append(LayerPlace(inputs, outputs, start, bias))
            start = bias + _aligned(outputs)
        return tuple(places)

    @cached_property
    def length(self) -> int:
        """Numbers in a row of the table, with the unused ones between matrices, which stay zero."""
        last = self.places[-1]
        return last.bias + _aligned(last.outputs)

    @cached_property
    def parameters(self) -> int:
        """Weights, biases and gates of one model."""
        return sum(p.outputs * (p.inputs + 1) for p in self.places) + (self.sizes[0] if self.gates else 0)

    @property
    def head(self) -> int:
        """Where the last layer begins."""
        return self.places[-1].weight

    def weights(self, table: Tensor) -> list[Tensor]:
        """Views ``(G, out, in)`` of the table, layer by layer."""
        return [table[:, p.weight : p.weight + p.inputs * p.outputs].view(-1, p.outputs, p.inputs) for p in self.places]

    def biases(self, table: Tensor) -> list[Tensor]:
        """Views ``(G, out, 1)`` of the table, layer by layer."""
        return [table[:, p.bias : p.bias + p.outputs].unsqueeze(-1) for p in self.places]

    def gate_numbers(self, table: Tensor) -> Tensor:
        """A view ``(G, 1, inputs)`` of the table; without gates, of no inputs."""
        return table[:, : self.sizes[0] if self.gates else 0].unsqueeze(1)

    def first_weights(self, table: Tensor, out: Tensor | None = None) -> Tensor:
        """The weights ``(G, out, in)`` that inputs meet: those of the first layer, times the gates."""
        weights = self.weights(table)[0]
        return torch.mul(weights, 1.0 + GATE_GAIN * self.gate_numbers(table), out=out) if self.gates else weights


def _aligned(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


def initial_table(layout: Layout, seeds: Sequence[int], *, dtype: torch.dtype = torch.float32) -> Tensor:
    """PyTorch's default initialisation: row g holds what ``torch.manual_seed(seeds[g])`` and then ``nn.Linear`` for one layer
    after another would draw, in this dtype. Models with equal seeds start equal. The global generator is not touched."""
    rows = {seed: _initial_row(layout, seed, dtype) for seed in dict.fromkeys(seeds)}
    return torch.stack([rows[seed] for seed in seeds])


def _initial_row(layout: Layout, seed: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    row = torch.zeros(1, layout.length, dtype=dtype, device="cpu")
    for weight, bias in zip(layout.weights(row), layout.biases(row), strict=True):
        fan_in = weight.shape[-1]
        # torch.nn.init.kaiming_uniform_(a=sqrt(5)), operation by operation: a bound one bit off would change every weight.
        bound = math.sqrt(3.0) * (math.sqrt(2.0 / (1.0 + math.sqrt(5) ** 2)) / math.sqrt(fan_in))
        weight.copy_(torch.empty_like(weight).uniform_(-bound, bound, generator=generator))
        reach = 1.0 / math.sqrt(fan_in)
        bias.copy_(torch.empty_like(bias).uniform_(-reach, reach, generator=generator))
    return row.squeeze(0)


class Output(NamedTuple):
    """Predictions ``(G, rows, targets)``, and the activations ``(G, rows, width)`` of the last hidden layer."""

    predictions: Tensor
    features: Tensor


def _taken_apart(module: nn.Sequential, place: int) -> tuple[Layout, list[nn.Linear]]:
    """A plain network; an error names the first layer that a stack cannot have."""
    activation: Activation = "silu" if len(module) > 1 and isinstance(module[1], nn.SiLU) else "elu"
    linear: list[nn.Linear] = []
    for number, layer in enumerate(module):
        if number % 2 == 0 and isinstance(layer, nn.Linear) and layer.bias is not None:
            linear.append(layer)
        elif number % 2 == 0 or not _is_activation(layer, activation):
            raise InputError(
                f"layer {number} of module {place} is {layer}; expected nn.Linear with a bias and, between each two, one and the "
                f"same activation: {' or '.join(f'nn.{kind.__name__}()' for kind in ACTIVATIONS.values())}"
            )
    if len(module) % 2 == 0:
        raise InputError(f"module {place} has {len(module)} layers; expected a network that begins and ends with nn.Linear")
    return Layout((linear[0].in_features, *(layer.out_features for layer in linear)), activation), linear


def _is_activation(layer: nn.Module, name: Activation) -> bool:
    return isinstance(layer, ACTIVATIONS[name]) and getattr(layer, "alpha", 1.0) == 1.0


class StackedMLP:
    """G networks of one architecture.

    Example:
        >>> networks = StackedMLP.initial((8, 16, 1), seeds=[1, 2, 3])
        >>> networks(torch.zeros(5, 8)).predictions.shape
        torch.Size([3, 5, 1])
    """

    def __init__(self, layout: Layout, table: Tensor) -> None:
        if table.ndim != 2 or table.shape[1] != layout.length:
            raise InputError(f"table has shape {tuple(table.shape)}; expected (models, {layout.length}) for sizes {layout.sizes}")
        self.layout, self.table = layout, table

    @staticmethod
    def initial(sizes: Sequence[int], *, seeds: Sequence[int], dtype: torch.dtype = torch.float32) -> "StackedMLP":
        """Untrained networks of these widths (features, hidden..., targets), one for every seed."""
        if len(sizes) < 2 or min(sizes) < 1:
            raise InputError(f"sizes={tuple(sizes)} is no network; expected (features, hidden..., targets), all >= 1")
        layout = Layout(tuple(sizes))
        return StackedMLP(layout, initial_table(layout, seeds, dtype=dtype))

    @staticmethod
    def from_modules(modules: Sequence[nn.Sequential]) -> "StackedMLP":
        """The stack of plain networks as :meth:`module` gives them: linear layers with one kind of activation between."""
        if not modules:
            raise InputError("modules is empty; expected one network or more")
        parts = [_taken_apart(module, place) for place, module in enumerate(modules)]
        layout, first = parts[0]
        table = first[0].weight.detach().new_zeros(len(modules), layout.length)
        for place, (own, layers) in enumerate(parts):
            if own != layout:
                raise InputError(f"module {place} is {own}, module 0 {layout}; networks of a stack have one architecture")
            row = table[place : place + 1]
            for layer, weight, bias in zip(layers, layout.weights(row), layout.biases(row), strict=True):
                weight.copy_(layer.weight.detach().unsqueeze(0))
                bias.copy_(layer.bias.detach().reshape(bias.shape))
        return StackedMLP(layout, table)

    def __len__(self) -> int:
        return len(self.table)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Output:
        """Predictions and features for rows ``(rows, features)``, or other rows for every model: ``(G, rows, features)``."""
        hidden = x.to(self.table).expand(len(self), *x.shape[-2:]).mT
        activate = ACTIVATIONS[self.layout.activation]()
        *inner, last = zip(self._weights(self.table), self.layout.biases(self.table), strict=True)
        for weight, bias in inner:
            hidden = activate(torch.baddbmm(bias, weight, hidden))
        return Output(torch.baddbmm(last[1], last[0], hidden).mT, hidden.mT)

    def _weights(self, table: Tensor) -> list[Tensor]:
        """Layer by layer, the gates included in the first."""
        return [self.layout.first_weights(table), *self.layout.weights(table)[1:]]

    def module(self, place: int) -> nn.Sequential:
        """Model ``place`` as a plain network of its own; its gates become part of the first layer."""
        row = self.table[place : place + 1]
        layers: list[nn.Module] = []
        for weight, bias in zip(self._weights(row), self.layout.biases(row), strict=True):
            linear = nn.Linear(weight.shape[2], weight.shape[1], dtype=row.dtype, device="meta")  # no random numbers are drawn
            linear.weight, linear.bias = nn.Parameter(weight[0].clone()), nn.Parameter(bias[0, :, 0].clone())
            layers += [linear, ACTIVATIONS[self.layout.activation]()]
        return nn.Sequential(*layers[:-1])
