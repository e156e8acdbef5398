"""Forward and backward through a stack, written out by hand: no graph is recorded and no buffer allocated twice.

Activations have shape ``(G, width, columns)``, a column being a row of the table; the number of columns is a multiple of
:data:`COLUMN_STEP`. Columns beyond the batch hold zeros on the way in and get a zero gradient on the way back, so they add nothing.
"""

import sys
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from gar.stack.network import ALIGNMENT, GATE_GAIN, Layout

COLUMN_STEP = 32
"""Whole vector registers in every row of activations: no model ever meets the scalar remainder loop of a vectorised kernel, whose
last bit may differ. So a model's numbers do not depend on its place in the stack."""


MODEL_STEP = 16
"""For the same reason, models that share one matrix product do so in groups of so many, the last one filled up with zeros."""


_FEW_NUMBERS = 2**16
"""Inputs of so many numbers are copied in no time."""


def whole_columns(rows: int) -> int:
    """Columns that hold so many rows."""
    return -(-rows // COLUMN_STEP) * COLUMN_STEP


class ModelSpan(NamedTuple):
    """Models ``start`` to ``stop`` that read the same rows: those of number ``source``."""

    start: int
    stop: int
    source: int

    def within(self, start: int, stop: int) -> "ModelSpan":
        """The part of it among models ``start`` to ``stop``, counted from ``start``."""
        return ModelSpan(max(self.start, start) - start, min(self.stop, stop) - start, self.source)


class Parameters:
    """A table of weights (or of gradients) with its views, layer by layer."""

    def __init__(self, layout: Layout, table: Tensor) -> None:
        self.layout, self.table = layout, table
        self.weights, self.biases = layout.weights(table), layout.biases(table)
        self.gates = layout.gate_numbers(table)


class Workspace:
    """Buffers for passes of all models over ``columns`` rows.

    The models are worked on in blocks of ``block``, one after another. What a block needs for a moment only is in memory that all
    blocks share, and so stays in the nearest cache; predictions and, in training, hidden layers of all models are kept.
    """

    def __init__(
        self, layout: Layout, table: Tensor, spans: tuple[ModelSpan, ...], columns: int, block: int, *, training: bool
    ) -> None:
        self.columns, models = columns, len(table)
        shared = _Memory(layout, min(block, models), columns, table, training)
        self.predictions = _buffer(table, models, layout.sizes[-1], columns)
        """``(G, targets, columns)``."""
        self.hidden = [_buffer(table, models, width, columns) for width in layout.sizes[1:-1]] if training else []
        """``(G, width, columns)``, layer by layer."""
        raw = [torch.empty_like(layer) for layer in self.hidden] if layout.activation == "silu" else self.hidden
        self.blocks = []
        for start in range(0, models, block):
            stop = min(start + block, models)
            layers = [layer[start:stop] for layer in (*self.hidden, self.predictions)]
            layers = layers if training else [*shared.layers_of(stop - start), layers[-1]]
            before = [layer[start:stop] for layer in raw] if training else layers[:-1]
            inside = tuple(span.within(start, stop) for span in spans if span.start < stop and span.stop > start)
            parameters = Parameters(layout, table[start:stop])
            self.blocks.append(Block(parameters, layers, before, shared, inside, slice(start, stop)))

    def forward(self, x: Tensor) -> None:
        """Predictions, and hidden layers in training, for rows ``x (sources, features, columns)``."""
        for block in self.blocks:
            block.forward(x)


class Block:
    """Some neighbouring models, and their views of all buffers: ``layers``, and what hidden ones were ``before`` their activation
    (the same memory, where the way back does not need it)."""

    def __init__(
        self,
        parameters: Parameters,
        layers: list[Tensor],
        before: list[Tensor],
        shared: "_Memory",
        spans: tuple[ModelSpan, ...],
        models: slice,
    ) -> None:
        self.models, self._parameters, self._layers = models, parameters, layers
        count = len(parameters.table)
        self._spans = [(slice(span.start, span.stop), (span.stop - span.start, -1, -1), span.source) for span in spans]
        self._is_single = parameters.layout.sizes[1] == 1
        few = count * parameters.layout.sizes[0] * shared.columns <= _FEW_NUMBERS
        sources = [span.source for span in spans for _ in range(span.start, span.stop)]
        gathers = few and len(spans) > 1 and not self._is_single
        self._sources = torch.tensor(sources, device=parameters.table.device) if gathers else None
        self._first = shared.first[:count]
        self._activations: list[_Activation] = [
            _Silu(raw, layer) if parameters.layout.activation == "silu" else _Elu(layer, spare)
            for raw, layer, spare in zip(before, layers, shared.spare_of(count), strict=False)
        ]
        self._into = [*(activation.before for activation in self._activations), layers[-1]]
        if shared.training:
            self.slopes = Parameters(parameters.layout, shared.gradient[:count])
            self._slopes = shared.slopes_of(count)
            self._products = [product[:count] for product in shared.products]

    def forward(self, x: Tensor) -> None:
        """Fill the layers from rows ``x (sources, features, columns)``."""
        weights, biases, layers = self._parameters.weights, self._parameters.biases, self._layers
        first = self._first_weights()
        for part, inputs in self._inputs(x):
            if self._is_single:
                _shared_product(first[part], inputs[0], self._into[0][part])
                self._into[0][part].add_(biases[0][part])
            else:
                torch.baddbmm(biases[0][part], first[part], inputs, out=self._into[0][part])
        for place, activation in enumerate(self._activations):
            activation.forward()
            torch.baddbmm(biases[place + 1], weights[place + 1], layers[place], out=self._into[place + 1])

    def _inputs(self, x: Tensor) -> list[tuple[slice, Tensor]]:
        """Rows of the models ``(models, features, columns)``, run by span. Where they are few, a copy for each model is cheaper than
        a call for each span."""
        if self._sources is not None:
            return [(slice(0, len(self._sources)), x.index_select(0, self._sources))]
        return [(part, x[source].expand(shape)) for part, shape, source in self._spans]

    def _first_weights(self) -> Tensor:
        layout, table = self._parameters.layout, self._parameters.table
        return layout.first_weights(table, out=self._first) if layout.gates else self._parameters.weights[0]

    def backward(self, x: Tensor, by_prediction: Tensor | None, by_feature: Tensor | None) -> None:
        """Gradient of the weights into ``slopes``, from that of predictions and that of features, both ``(G, width, columns)`` of
        all models or None for zero. Without a gradient of predictions the head gets none: its part is left as it is.
        """
        top = len(self._layers) - 1
        slope = None if by_prediction is None else by_prediction[self.models]
        for place in range(top, 0, -1):
            below = self._slopes[place - 1]
            if slope is not None:
                self._weight_slopes(place, slope)
                torch.bmm(self._parameters.weights[place].mT, slope, out=below)
            if place == top and by_feature is not None:
                mine = by_feature[self.models]
                below = below.copy_(mine) if slope is None else below.add_(mine)
            slope = self._activations[place - 1].backward(below)
        if slope is not None:
            self._first_slopes(x, slope)

    def _weight_slopes(self, place: int, slope: Tensor) -> None:
        weight, product = self.slopes.weights[place], self._products[place]
        torch.sum(slope, -1, keepdim=True, out=self.slopes.biases[place])
        weight.copy_(_product(slope, self._layers[place - 1], product))

    def _first_slopes(self, x: Tensor, slope: Tensor) -> None:
        """The same for the first layer, where the models of a run share their input."""
        torch.sum(slope, -1, keepdim=True, out=self.slopes.biases[0])
        for part, inputs in self._inputs(x):
            if self._is_single:
                _shared_product(slope[part], inputs[0].mT, self.slopes.weights[0][part])
            else:
                self.slopes.weights[0][part].copy_(_product(slope[part], inputs, self._products[0][part]))
        if self._parameters.layout.gates:
            self._gate_slopes()

    def _gate_slopes(self) -> None:
        """So far the slopes are those of weights times gates; by the product rule they become those of either."""
        by_product = self.slopes.weights[0]
        torch.sum(by_product * self._parameters.weights[0], 1, keepdim=True, out=self.slopes.gates).mul_(GATE_GAIN)
        by_product.addcmul_(by_product, self._parameters.gates, value=GATE_GAIN)


def _is_turned(outputs: int, inputs: int) -> bool:
    """Whether the product of slopes is made with inputs first, and turned when it is copied.

    Its rows are then whole vectors, and a result of one column, which the matrix library would treat by another method in another
    place of the stack, does not occur. Where rows are whole vectors anyway, turning only costs time.
    """
    return inputs < outputs and inputs % ALIGNMENT > 0


def _product(slope: Tensor, below: Tensor, out: Tensor) -> Tensor:
    """``slope below^T``, ``(models, out, in)``."""
    if _is_turned(slope.shape[1], below.shape[1]):
        return torch.bmm(below, slope.mT, out=out).mT
    return torch.bmm(slope, below.mT, out=out)


def _shared_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """``left right`` for models with one row each, ``(models, 1, n)``, and the same ``right (n, m)``: one matrix product for all,
    which reads ``right`` once and not once per model."""
    left, out = left.squeeze(1), out.squeeze(1)
    whole = len(left) // MODEL_STEP * MODEL_STEP
    if whole:
        torch.mm(left[:whole], right, out=out[:whole])
    rest = len(left) - whole
    if rest:
        filled = left.new_zeros(MODEL_STEP, left.shape[1])
        filled[:rest] = left[whole:]
        out[whole:] = torch.mm(filled, right)[:rest]


class _Memory:
    """What blocks share, since each needs it for a moment only."""

    def __init__(self, layout: Layout, models: int, columns: int, like: Tensor, training: bool) -> None:
        self.training, self.columns = training, columns
        self._hidden = hidden = layout.sizes[1:-1]
        widest = [max(widths, default=0) for widths in (hidden, hidden[::2], hidden[1::2])]
        self._spare, *self._pair = (_buffer(like, models, width, columns) for width in widest)
        self.first = like.new_empty(models, layout.sizes[1], layout.sizes[0]) if layout.gates else like.new_empty(models, 0)
        if training:
            self.gradient = like.new_zeros(models, layout.length)
            pairs = zip(layout.sizes[:-1], layout.sizes[1:], strict=True)
            shapes = [(inputs, outputs) if _is_turned(outputs, inputs) else (outputs, inputs) for inputs, outputs in pairs]
            self.products = [like.new_empty(models, *shape) for shape in shapes]

    def spare_of(self, models: int) -> list[Tensor]:
        """One buffer for every hidden layer, all in the same memory."""
        return [self._view(self._spare, models, width) for width in self._hidden]

    def layers_of(self, models: int) -> list[Tensor]:
        """One buffer for every hidden layer, two memories in turn: neighbours never share one."""
        return [self._view(self._pair[place % 2], models, width) for place, width in enumerate(self._hidden)]

    slopes_of = layers_of

    def _view(self, memory: Tensor, models: int, width: int) -> Tensor:
        return memory.flatten()[: models * width * self.columns].view(models, width, self.columns)


def _buffer(like: Tensor, models: int, width: int, columns: int) -> Tensor:
    return like.new_zeros(models, width, columns)


def _numpy_is_quicker() -> bool:
    """On Linux with AVX-512, numpy's expm1 takes a third of the time of torch's; elsewhere it is not vectorised at all."""
    return sys.platform == "linux" and torch.backends.cpu.get_cpu_capability().startswith("AVX512")


_SATURATED = -50.0
"""Below this ``expm1`` is -1 to the last bit of a double; numpy takes a slow path for numbers far below."""


class _Activation(Protocol):
    """What a hidden layer does with the product that went ``before`` it, and the way back."""

    before: Tensor

    def forward(self) -> None: ...

    def backward(self, slope: Tensor) -> Tensor:
        """The gradient by what went in, in the memory of that by what came out."""


class _Elu:
    """ELU in place, ``max(z, expm1(min(z, 0)))``: the two arguments of the maximum cross at zero."""

    def __init__(self, layer: Tensor, spare: Tensor) -> None:
        self.before, self._spare = layer, spare
        self._array: np.ndarray | None = spare.numpy() if layer.device.type == "cpu" and _numpy_is_quicker() else None

    def forward(self) -> None:
        if self._array is None:
            torch.nn.functional.elu(self.before, inplace=True)
            return
        torch.clamp(self.before, min=_SATURATED, max=0.0, out=self._spare)
        np.expm1(self._array, out=self._array)
        torch.maximum(self.before, self._spare, out=self.before)

    def backward(self, slope: Tensor) -> Tensor:
        """From what came out: the derivative is 1 above zero and ``out + 1`` below."""
        torch.ops.aten.elu_backward.grad_input(slope, 1.0, 1.0, 1.0, True, self.before, grad_input=slope)
        return slope


class _Silu:
    """SiLU, ``z sigmoid(z)``. It is not monotonic, so the way back needs what went in."""

    def __init__(self, before: Tensor, layer: Tensor) -> None:
        self.before, self._layer = before, layer

    def forward(self) -> None:
        torch.ops.aten.silu.out(self.before, out=self._layer)

    def backward(self, slope: Tensor) -> Tensor:
        torch.ops.aten.silu_backward.grad_input(slope, self.before, grad_input=slope)
        return slope
