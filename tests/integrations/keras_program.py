"""Evaluate the loss of Keras on the backend that KERAS_BACKEND names: values, gradients, a training run, a saved model, as JSON."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gar.integrations.keras import KerasGARLoss
from tests.integrations.keras_cases import CASES, make_batch


def gradient_of(loss: KerasGARLoss, target: Any, pred: Any, weight: Any) -> tuple[Any, Any]:
    """Return the value and its gradient by the predictions, by the backend's own means."""
    match keras.backend.backend():
        case "torch":
            leaf = keras.ops.convert_to_tensor(pred).requires_grad_()
            value = loss(target, leaf, weight)
            value.backward()
            return value, leaf.grad
        case "jax":
            import jax

            return jax.jit(jax.value_and_grad(lambda one: loss(target, one, weight)))(pred)
        case _:
            import tensorflow

            leaf = tensorflow.constant(pred)
            with tensorflow.GradientTape() as tape:
                tape.watch(leaf)
                value = loss(target, leaf, weight)
            return value, tape.gradient(value, leaf)


def as_list(values: Any) -> Any:
    return keras.ops.convert_to_numpy(values).tolist()


def trained(folder: str) -> dict[str, Any]:
    """Train with weights, save, load and predict again."""
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    x = random.normal(size=(256, 4)).astype("float32")
    y = np.sin(x[:, 0]) + x[:, 1]  # (rows,) for outputs (rows, 1)
    y[:64] = np.nan
    weight = np.concatenate([np.zeros(64), random.integers(1, 3, 192)])
    model = keras.Sequential([keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss=KerasGARLoss(0.5, weights=(1, 0.5, 1)))
    losses = model.fit(x, y, sample_weight=weight, epochs=5, batch_size=64, verbose=0).history["loss"]
    file = str(Path(folder) / "model.keras")
    model.save(file)
    again = keras.models.load_model(file)
    difference = np.abs(again.predict(x, verbose=0) - model.predict(x, verbose=0)).max()
    return {"losses": losses, "difference": float(difference), "config": again.loss.get_config()}


def main() -> None:
    found: dict[str, Any] = {"backend": keras.backend.backend(), "cases": {}}
    for name, (options, kind) in CASES.items():
        for dtype in ("float32", "float64"):
            pred, target, weight = make_batch(kind, dtype)
            value, gradient = gradient_of(KerasGARLoss(**options, dtype=dtype), target, pred, weight)
            found["cases"][f"{name}, {dtype}"] = as_list(value), as_list(gradient)
    with tempfile.TemporaryDirectory() as folder:
        found["trained"] = trained(folder)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
