"""Export of a fitted estimator as an ONNX file, which runs without Python, torch or this package."""

import os
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from gar.encoding import Encoder, NumericColumn
from gar.errors import InputError, how_to_install, quoted
from gar.estimators.base import NetworkRegressor
from gar.files import write_whole
from gar.stack import BoundedScaling, ExpandedFeatures, PeriodicFeatures, RobustScaling, Scaling
from gar.stack.scaling import FARTHEST

_OPSET = 17
_FLOAT, _DOUBLE = 1, 11  # onnx.TensorProto


def export_onnx(estimator: NetworkRegressor, path: str | os.PathLike[str]) -> None:
    """Write a fitted :class:`GARRegressor` or :class:`GARRegressorCV` as an ONNX model.

    It takes ``X (rows, features)`` in double precision, NaN where a number is missing, and gives ``y (rows, targets)`` in the
    units of the labels. Networks work in single precision, so predictions agree to about six digits. Columns of categories or
    dates cannot be exported.

    Args:
        estimator: fitted.
        path: of the file to write.
    """
    if not isinstance(estimator, NetworkRegressor):
        raise InputError(
            f"{type(estimator).__name__} cannot be written as ONNX; pass a fitted GARRegressor or GARRegressorCV: of a pipeline "
            "its last step, pipeline[-1], and transform X by the other steps before. Trees have converters of their own, such as "
            "onnxmltools for model.model_.booster"
        )
    check_is_fitted(estimator)
    _check_columns(estimator.encoder_)
    try:
        import onnx
    except ImportError as error:
        raise InputError(f"writing ONNX needs the package onnx; {how_to_install('onnx')}") from error
    graph = _Graph(onnx.helper, onnx.numpy_helper)
    inputs = list(getattr(estimator, "feature_names_in_", [f"x{index}" for index in range(estimator.n_features_in_)]))
    outputs = [
        graph.add_network(graph.add_encoder(member.encoder, inputs), member.networks.module(index), member.features, member.labels)
        for member in estimator.members_
        for index in range(len(member.networks))
    ]
    graph.add("Div", reduce(partial(graph.add, "Add"), outputs), graph.constant(np.float64(len(outputs))), output="y")
    ends = [
        onnx.helper.make_tensor_value_info(name, _DOUBLE, ["rows", width])
        for name, width in (("X", estimator.n_features_in_), ("y", estimator.n_outputs_))
    ]
    body = onnx.helper.make_graph(graph.nodes, "gar", ends[:1], ends[1:], graph.constants)
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", _OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    write_whole(Path(path), model.SerializeToString())


def _check_columns(encoder: Encoder) -> None:
    others = [column.name for column in encoder.columns if not isinstance(column, NumericColumn)]
    if others:
        raise InputError(
            f"columns {quoted(others)} hold categories or dates, which ONNX models of gar do not read; encode them as numbers "
            "before fit, for example by a ColumnTransformer in front of the estimator"
        )


class _Graph:
    """Nodes and constants of an ONNX graph; a value is known by its name."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return its name."""
        name = output or f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Tensor | np.ndarray | np.generic) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        self.constants.append(self._numpy_helper.from_array(array, name))
        return name

    def add_encoder(self, encoder: Encoder, inputs: list[str]) -> str:
        """Add the features that :meth:`gar.encoding.Encoder.encode` returns for columns of numbers, and return their name."""
        columns = [column for column in encoder.columns if isinstance(column, NumericColumn)]
        indices, fills = [inputs.index(column.name) for column in columns], [column.fill or 0.0 for column in columns]
        codes = self.add("Gather", "X", self.constant(np.array(indices)), axis=1)
        missing = self.add("IsNaN", codes)
        filled = self.add("Where", missing, self.constant(np.array([fills])), codes)
        both = self.add("Concat", filled, self.add("Cast", missing, to=_DOUBLE), axis=1)
        order = [part for index, column in enumerate(columns) for part in (index, len(columns) + index)[: 1 + column.marked]]
        return self.add("Gather", both, self.constant(np.array(order)), axis=1)

    def add_network(
        self, value: str, network: nn.Sequential, features: Scaling | ExpandedFeatures | None, labels: Scaling | None
    ) -> str:
        """Add the predictions of one network for encoded features, and return their name."""
        value = self._inputs(value, features)
        for layer in network:
            value = self._layer(value, layer)
        value = self.add("Cast", value, to=_DOUBLE)
        if labels is None:
            return value
        value = self.add("Add", self.add("Mul", value, self.constant(labels.scale)), self.constant(labels.center))
        if not isinstance(labels, BoundedScaling):
            return value
        return self.add("Min", self.add("Max", value, self.constant(labels.low)), self.constant(labels.high))

    def _inputs(self, value: str, features: Scaling | ExpandedFeatures | None) -> str:
        """Add the inputs of a network in single precision, scaled before they are rounded."""
        if features is None:
            return self.add("Cast", value, to=_FLOAT)
        scaling = features.scaling if isinstance(features, ExpandedFeatures) else features
        scaled = self.add("Div", self.add("Sub", value, self.constant(scaling.center)), self.constant(scaling.scale))
        if isinstance(scaling, RobustScaling):
            scaled = self._squashed(scaled, scaling)
        single = self.add("Cast", scaled, to=_FLOAT)
        if not isinstance(features, ExpandedFeatures):
            return single
        return self.add("Concat", single, self._expanded(scaled, features), axis=1)

    def _squashed(self, scaled: str, scaling: RobustScaling) -> str:
        """Add what :meth:`gar.stack.RobustScaling.apply` does after scaling."""
        cut = self._between(scaled, -FARTHEST, FARTHEST)
        part = self.add("Div", cut, self.constant(scaling.knee))
        root = self.add("Sqrt", self.add("Add", self.add("Mul", part, part), self.constant(np.float64(1.0))))
        return self.add("Div", cut, root)

    def _expanded(self, scaled: str, features: ExpandedFeatures) -> str:
        """Add the features that :meth:`gar.stack.ExpandedFeatures.apply` puts beside the scaled ones."""
        columns = self.constant(np.repeat(features.columns.numpy(), features.slopes.shape[1]))
        lines = self.add("Mul", self.add("Gather", scaled, columns, axis=1), self.constant(features.slopes.flatten()))
        lines = self.add("Add", lines, self.constant(features.offsets.flatten()))
        if not isinstance(features, PeriodicFeatures):
            return self.add("Cast", self._between(lines, -1.0, 1.0), to=_FLOAT)
        part = self.add("Cast", self.add("Sub", lines, self.add("Floor", lines)), to=_FLOAT)  # whole periods would be rounded
        return self.add("Cos", self.add("Mul", part, self.constant(np.float32(2.0 * np.pi))))

    def _between(self, value: str, low: float, high: float) -> str:
        return self.add("Min", self.add("Max", value, self.constant(np.float64(low))), self.constant(np.float64(high)))

    def _layer(self, value: str, layer: nn.Module) -> str:
        if isinstance(layer, nn.Linear):
            return self.add("Gemm", value, self.constant(layer.weight.float()), self.constant(layer.bias.float()), transB=1)
        if isinstance(layer, nn.ELU):
            return self.add("Elu", value)
        return self.add("Mul", value, self.add("Sigmoid", value))  # SiLU
