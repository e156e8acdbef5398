"""A fitted estimator as an ONNX file, which runs without Python, torch or this package."""

import os
from functools import partial, reduce
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from gar.errors import InputError
from gar.estimators.base import NetworkRegressor
from gar.stack import PeriodicFeatures, Scaling

_OPSET = 17
_SINGLE, _DOUBLE = 1, 11  # onnx.TensorProto.FLOAT and DOUBLE


def export_onnx(estimator: NetworkRegressor, path: str | os.PathLike[str]) -> None:
    """Write a fitted :class:`GARRegressor` or :class:`GARRegressorCV` as an ONNX model.

    It takes ``X (rows, features)`` in double precision and gives ``y (rows, targets)`` in the units of the labels. Networks
    work in single precision, so predictions agree to about six digits.

    Args:
        estimator: fitted.
        path: of the file to write.
    """
    check_is_fitted(estimator)
    onnx = _onnx()
    graph = _Graph(onnx.helper, onnx.numpy_helper)
    folds = [graph.fold(estimator.networks_.module(place), *fold) for place, fold in enumerate(estimator.scalings_)]
    graph.add("Div", reduce(partial(graph.add, "Add"), folds), graph.constant(np.float64(len(folds))), output="y")
    ends = [
        onnx.helper.make_tensor_value_info(name, _DOUBLE, ["rows", width])
        for name, width in (("X", estimator.n_features_in_), ("y", estimator.n_outputs_))
    ]
    body = onnx.helper.make_graph(graph.nodes, "gar", ends[:1], ends[1:], graph.constants)
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save_model(model, os.fspath(path))


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise InputError("writing ONNX needs the package onnx; install it with: pip install 'gar[onnx]'") from error
    return onnx


class _Graph:
    """Nodes and constants as they are added; a value is known by its name."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """A node with one output; returns its name."""
        name = output or f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, value: np.ndarray | np.generic) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.asarray(value), name))
        return name

    def numbers(self, values: Tensor) -> str:
        return self.constant(values.detach().numpy())

    def fold(self, network: nn.Sequential, features: Scaling | PeriodicFeatures | None, labels: Scaling | None) -> str:
        """Predictions of one network."""
        value = self._inputs(features)
        for layer in network:
            value = self._layer(value, layer)
        value = self.add("Cast", value, to=_DOUBLE)
        if labels is None:
            return value
        return self.add("Add", self.add("Mul", value, self.numbers(labels.scale)), self.numbers(labels.center))

    def _inputs(self, features: Scaling | PeriodicFeatures | None) -> str:
        """What a network sees, in single precision; scaled before it is rounded."""
        if features is None:
            return self.add("Cast", "X", to=_SINGLE)
        scaling = features.scaling if isinstance(features, PeriodicFeatures) else features
        scaled = self.add("Div", self.add("Sub", "X", self.numbers(scaling.center)), self.numbers(scaling.scale))
        single = self.add("Cast", scaled, to=_SINGLE)
        return (
            self.add("Concat", single, self._waves(scaled, features), axis=1) if isinstance(features, PeriodicFeatures) else single
        )

    def _waves(self, scaled: str, waves: PeriodicFeatures) -> str:
        """As :meth:`gar.stack.PeriodicFeatures.apply`. Whole turns are taken off before rounding, so that fast waves keep their digits."""
        columns = self.constant(np.repeat(waves.columns.numpy(), waves.frequencies.shape[1]))
        phases = self.add("Mul", self.add("Gather", scaled, columns, axis=1), self.numbers(waves.frequencies.flatten()))
        turns = self.add("Add", phases, self.numbers(waves.phases.flatten()))
        part = self.add("Cast", self.add("Sub", turns, self.add("Floor", turns)), to=_SINGLE)
        return self.add("Cos", self.add("Mul", part, self.constant(np.float32(2.0 * np.pi))))

    def _layer(self, value: str, layer: nn.Module) -> str:
        if isinstance(layer, nn.Linear):
            return self.add("Gemm", value, self.numbers(layer.weight.float()), self.numbers(layer.bias.float()), transB=1)
        if isinstance(layer, nn.ELU):
            return self.add("Elu", value)
        return self.add("Mul", value, self.add("Sigmoid", value))  # SiLU
