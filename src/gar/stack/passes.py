"""Forward and backward through a stack, written out by hand: no graph is recorded and no buffer allocated twice.

Activations have shape ``(G, width, columns)``, a column being a row of the table; the number of columns is a multiple of
:data:`gar.stack.chunking.COLUMN_STEP`. Columns beyond the batch hold zeros on the way in and get a zero gradient on the way back,
so they add nothing.
"""

import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.stack.network import ALIGNMENT, GATE_GAIN, LayerViews, Layout
from gar.validation import on_accelerator

# ---- Bit-exactness: a model's numbers do not depend on its index in the stack, nor on the number of models (docs/bit-exactness.md)

MODEL_STEP = 16
"""Models that share one matrix product do so in groups of this size, the last one padded with zeros, so that the shape of a product
does not depend on the number of models."""


def padded(gradient: Tensor, columns: int) -> Tensor:
    """Return ``(G, rows, width)`` as ``(G, width, columns)``, zero in columns that hold no row.

    Always in fresh memory: the matrix library looks at strides, even those of a dimension of size 1, to choose its kernel.
    """
    filled = gradient.new_zeros(gradient.shape[0], gradient.shape[2], columns)
    filled[..., : gradient.shape[1]] = gradient.mT
    return filled


def _is_transposed(outputs: int, inputs: int) -> bool:
    """Return True if a weight gradient is computed as ``(inputs, outputs)``, and transposed when it is copied.

    Its rows are then whole vectors, and a result of one column, for which the matrix library chooses its kernel by the number of
    models, does not occur. Where rows are whole vectors anyway, transposing only costs time.
    """
    return inputs < outputs and inputs % ALIGNMENT > 0


def _weight_gradient(gradient: Tensor, inputs: Tensor, out: Tensor) -> Tensor:
    """Return ``gradient inputs^T``, ``(models, out, in)``."""
    if _is_transposed(gradient.shape[1], inputs.shape[1]):
        return torch.bmm(inputs, gradient.mT, out=out).mT
    return torch.bmm(gradient, inputs.mT, out=out)


def _shared_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Write ``left right`` to ``out`` for models with one row each, ``(models, 1, n)``, and the same ``right (n, m)``.

    It is one matrix product for all, which reads ``right`` once and not once per model.
    """
    left, out = left.squeeze(1), out.squeeze(1)
    whole = len(left) // MODEL_STEP * MODEL_STEP
    if whole:
        torch.mm(left[:whole], right, out=out[:whole])
    rest = len(left) - whole
    if rest:
        filled = left.new_zeros(MODEL_STEP, left.shape[1])
        filled[:rest] = left[whole:]
        out[whole:] = torch.mm(filled, right)[:rest]


# ---- Passes


CACHE_BYTES = 10 * 2**20
"""Memory of the models of a block. Measured: with less, Python's overhead shows; with more, activations leave the cache."""


class ModelSpan(NamedTuple):
    """Models ``start`` to ``stop``, which read the same rows: those of ``source``."""

    start: int
    stop: int
    source: int

    def within(self, start: int, stop: int) -> "ModelSpan":
        """Return the part of the span among models ``start`` to ``stop``, counted from ``start``."""
        return ModelSpan(max(self.start, start) - start, min(self.stop, stop) - start, self.source)


class Workspace:
    """Buffers for passes of all models over ``columns`` rows.

    Models are processed in blocks of ``block``, one after another (None: as many as fit the cache of a CPU; all on an accelerator,
    where launches count). Intermediate results of a block are in memory that all blocks share, and so stay in the nearest cache;
    predictions and, in training, hidden layers of all models are kept.
    """

    def __init__(
        self,
        layout: Layout,
        weights: Tensor,
        spans: tuple[ModelSpan, ...],
        columns: int,
        block: int | None = None,
        *,
        training: bool,
    ) -> None:
        models = len(weights)
        block = block or (models if on_accelerator(weights) else models_in_block(layout, columns, weights.dtype))
        shared = _SharedBuffers(layout, min(block, models), columns, weights, training)
        self.predictions = weights.new_zeros(models, layout.sizes[-1], columns)
        """``(G, targets, columns)``."""
        self.hidden = [weights.new_zeros(models, width, columns) for width in layout.sizes[1:-1]] if training else []
        """``(G, width, columns)``, layer by layer."""
        pre_activations = [torch.empty_like(layer) for layer in self.hidden] if layout.activation == "silu" else self.hidden
        self.blocks = []
        for start in range(0, models, block):
            stop = min(start + block, models)
            layers = [layer[start:stop] for layer in (*self.hidden, self.predictions)]
            layers = layers if training else [*shared.layers_of(stop - start), layers[-1]]
            before = [layer[start:stop] for layer in pre_activations] if training else layers[:-1]
            inside = tuple(span.within(start, stop) for span in spans if span.start < stop and span.stop > start)
            views = LayerViews(layout, weights[start:stop])
            self.blocks.append(Block(views, layers, before, shared, inside, slice(start, stop)))

    def forward(self, x: Tensor) -> None:
        """Compute predictions, and hidden layers in training, for rows ``x (sources, features, columns)``."""
        for block in self.blocks:
            block.forward(x)


def models_in_block(layout: Layout, columns: int, dtype: torch.dtype) -> int:
    """Return how many models are processed at a time, so that their buffers stay in cache; at least one."""
    widths = layout.sizes[1:]
    numbers = columns * (sum(widths) + 3 * max(widths)) + 4 * layout.length
    return max(1, CACHE_BYTES // (numbers * dtype.itemsize))


_FEW_NUMBERS = 2**16
"""Up to this many input numbers, copying them for each model is cheaper than a call for each span."""


class Block:
    """Some neighbouring models, and their views of all buffers: ``layers``, and hidden layers ``before`` their activation (the same
    memory, where the backward pass does not need them)."""

    def __init__(
        self,
        weights: LayerViews,
        layers: list[Tensor],
        before: list[Tensor],
        shared: "_SharedBuffers",
        spans: tuple[ModelSpan, ...],
        models: slice,
    ) -> None:
        self.models, self._weights, self._layers = models, weights, layers
        layout, count = weights.layout, len(weights.values)
        self._spans = [(slice(span.start, span.stop), (span.stop - span.start, -1, -1), span.source) for span in spans]
        self._has_single_output = layout.sizes[1] == 1
        few = count * layout.sizes[0] * shared.columns <= _FEW_NUMBERS
        sources = [span.source for span in spans for _ in range(span.start, span.stop)]
        gathers = few and len(spans) > 1 and not self._has_single_output
        self._sources = torch.tensor(sources, device=weights.values.device) if gathers else None
        self._first = shared.first[:count]
        self._activations = [
            _Silu(raw, layer) if layout.activation == "silu" else _Elu(layer, spare)
            for raw, layer, spare in zip(before, layers, shared.spare_of(count), strict=False)
        ]
        self._outputs = [*(activation.before for activation in self._activations), layers[-1]]
        if shared.training:
            self.gradients = LayerViews(layout, shared.gradient[:count])
            self._layer_gradients = shared.layers_of(count)
            self._products = [product[:count] for product in shared.products]

    def forward(self, x: Tensor) -> None:
        """Fill the layers from rows ``x (sources, features, columns)``."""
        matrices, biases, layers = self._weights.matrices, self._weights.biases, self._layers
        first = self._first_matrix()
        for part, inputs in self._inputs(x):
            if self._has_single_output:
                _shared_product(first[part], inputs[0], self._outputs[0][part])
                self._outputs[0][part].add_(biases[0][part])
            else:
                torch.baddbmm(biases[0][part], first[part], inputs, out=self._outputs[0][part])
        for index, activation in enumerate(self._activations):
            activation.forward()
            torch.baddbmm(biases[index + 1], matrices[index + 1], layers[index], out=self._outputs[index + 1])

    def _first_matrix(self) -> Tensor:
        layout = self._weights.layout
        return layout.first_matrix(self._weights.values, out=self._first) if layout.feature_gates else self._weights.matrices[0]

    def _inputs(self, x: Tensor) -> list[tuple[slice, Tensor]]:
        """Return rows of the models ``(models, features, columns)``, span by span, or gathered for all models."""
        if self._sources is not None:
            return [(slice(0, len(self._sources)), x.index_select(0, self._sources))]
        return [(part, x[source].expand(shape)) for part, shape, source in self._spans]

    def backward(self, x: Tensor, by_prediction: Tensor | None, by_feature: Tensor | None) -> None:
        """Write the gradient of the weights to ``gradients``.

        ``by_prediction`` and ``by_feature`` are the gradients of the loss, ``(G, width, columns)`` of all models or None for zero.
        Without a gradient of predictions the head gets none: its part is left unchanged.
        """
        top = len(self._layers) - 1
        gradient = None if by_prediction is None else by_prediction[self.models]
        for index in range(top, 0, -1):
            below = self._layer_gradients[index - 1]
            if gradient is not None:
                torch.sum(gradient, -1, keepdim=True, out=self.gradients.biases[index])
                product = _weight_gradient(gradient, self._layers[index - 1], self._products[index])
                self.gradients.matrices[index].copy_(product)
                torch.bmm(self._weights.matrices[index].mT, gradient, out=below)
            if index == top and by_feature is not None:
                own = by_feature[self.models]
                below = below.copy_(own) if gradient is None else below.add_(own)
            gradient = self._activations[index - 1].backward(below)
        if gradient is not None:
            self._first_backward(x, gradient)

    def _first_backward(self, x: Tensor, gradient: Tensor) -> None:
        """Write the gradient of the first layer, where the models of a span share their inputs."""
        torch.sum(gradient, -1, keepdim=True, out=self.gradients.biases[0])
        for part, inputs in self._inputs(x):
            if self._has_single_output:
                _shared_product(gradient[part], inputs[0].mT, self.gradients.matrices[0][part])
            else:
                self.gradients.matrices[0][part].copy_(_weight_gradient(gradient[part], inputs, self._products[0][part]))
        if self._weights.layout.feature_gates:
            self._gate_backward()

    def _gate_backward(self) -> None:
        """Turn the gradient of weights times gates into those of weights and of gates, by the product rule."""
        by_product = self.gradients.matrices[0]
        torch.sum(by_product * self._weights.matrices[0], 1, keepdim=True, out=self.gradients.gates).mul_(GATE_GAIN)
        by_product.addcmul_(by_product, self._weights.gates, value=GATE_GAIN)


class _SharedBuffers:
    """Memory that all blocks use, one after another."""

    def __init__(self, layout: Layout, models: int, columns: int, like: Tensor, training: bool) -> None:
        self.training, self.columns = training, columns
        self._hidden = hidden = layout.sizes[1:-1]
        widest = [max(widths, default=0) for widths in (hidden, hidden[::2], hidden[1::2])]
        self._spare, *self._pair = (like.new_zeros(models, width, columns) for width in widest)
        self.first = like.new_empty(models, layout.sizes[1], layout.sizes[0]) if layout.feature_gates else like.new_empty(models, 0)
        if training:
            self.gradient = like.new_zeros(models, layout.length)
            pairs = zip(layout.sizes[:-1], layout.sizes[1:], strict=True)
            shapes = [(inputs, outputs) if _is_transposed(outputs, inputs) else (outputs, inputs) for inputs, outputs in pairs]
            self.products = [like.new_empty(models, *shape) for shape in shapes]

    def spare_of(self, models: int) -> list[Tensor]:
        """Return one buffer for every hidden layer, all in the same memory."""
        return [self._view(self._spare, models, width) for width in self._hidden]

    def layers_of(self, models: int) -> list[Tensor]:
        """Return one buffer for every hidden layer, in two memories in turn: neighbouring layers never share one."""
        return [self._view(self._pair[index % 2], models, width) for index, width in enumerate(self._hidden)]

    def _view(self, memory: Tensor, models: int, width: int) -> Tensor:
        return memory.flatten()[: models * width * self.columns].view(models, width, self.columns)


_SATURATED = -50.0
"""Below this ``expm1`` is -1 to the last bit of a double; numpy takes a slow path for numbers far below."""


class _Elu:
    """ELU in place, ``max(z, expm1(min(z, 0)))``: the two arguments of the maximum cross at zero.

    Like :class:`_Silu`, it reads ``before``, the result of a matrix product, and writes the gradient of its input over that of its
    output.
    """

    def __init__(self, layer: Tensor, spare: Tensor) -> None:
        self.before, self._spare = layer, spare
        self._array: np.ndarray | None = spare.numpy() if layer.device.type == "cpu" and _numpy_is_faster() else None

    def forward(self) -> None:
        if self._array is None:
            torch.nn.functional.elu(self.before, inplace=True)
            return
        torch.clamp(self.before, min=_SATURATED, max=0.0, out=self._spare)
        np.expm1(self._array, out=self._array)
        torch.maximum(self.before, self._spare, out=self.before)

    def backward(self, gradient: Tensor) -> Tensor:
        """Return the gradient of the input from the output: the derivative is 1 above zero and ``output + 1`` below."""
        torch.ops.aten.elu_backward.grad_input(gradient, 1.0, 1.0, 1.0, True, self.before, grad_input=gradient)
        return gradient


def _numpy_is_faster() -> bool:
    """Return True on Linux with AVX-512: numpy's expm1 takes a third of torch's time there; elsewhere it is not vectorised."""
    return sys.platform == "linux" and torch.backends.cpu.get_cpu_capability().startswith("AVX512")


class _Silu:
    """SiLU, ``z sigmoid(z)``. It is not monotonic, so the backward pass needs its input."""

    def __init__(self, before: Tensor, layer: Tensor) -> None:
        self.before, self._layer = before, layer

    def forward(self) -> None:
        torch.ops.aten.silu.out(self.before, out=self._layer)

    def backward(self, gradient: Tensor) -> Tensor:
        torch.ops.aten.silu_backward.grad_input(gradient, self.before, grad_input=gradient)
        return gradient
