"""GAR in Keras 3: on each backend, in a process of its own, values and gradients are ours."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gar import InputError
from gar.functional import gar_loss
from tests.integrations.keras_cases import CASES, make_batch

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="keras is not installed: the extra 'keras'")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("backend", ["torch", "jax", "tensorflow"])
def test_a_backend_gives_our_values_and_trains(backend: str) -> None:
    """One test for all, since starting a process with a backend takes most of the time."""
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed, so Keras cannot run on it")
    found = run_program(backend)
    assert found["backend"] == backend
    assert_values_and_gradients_are_ours(found["cases"], "float32", tolerance=1e-6)
    assert_values_and_gradients_are_ours(found["cases"], "float64", tolerance=1e-10)
    trained = found["trained"]
    assert trained["losses"][-1] < trained["losses"][0] - 0.5
    assert trained["difference"] == 0.0  # of predictions before it was saved and after it was loaded
    assert trained["config"]["weights"] == [1.0, 0.5, 1.0]


def run_program(backend: str) -> dict[str, Any]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"KERAS_BACKEND": backend, "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    command = [sys.executable, "-m", "tests.integrations.keras_program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_values_and_gradients_are_ours(found: dict[str, Any], dtype: str, *, tolerance: float) -> None:
    for name, (options, kind) in CASES.items():
        value, gradient = found[f"{name}, {dtype}"]
        pred, target, weight = (None if one is None else torch.from_numpy(one) for one in make_batch(kind, dtype))
        assert pred is not None
        assert target is not None
        pred.requires_grad_()
        expected = gar_loss(pred, target, sample_weight=weight, **options, nan_policy="propagate")
        (slope,) = torch.autograd.grad(expected, pred)
        # Labels around 1000 have four digits after the point in float32, whoever adds them up.
        allowed = 1e-4 if (kind, dtype) == ("large labels", "float32") else tolerance
        assert value == pytest.approx(expected.item(), abs=allowed), name
        np.testing.assert_allclose(gradient, slope.numpy(), atol=allowed, err_msg=name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"components": ("mae", "ccc")}, "not ccc"), ({"alpha": -1.0}, "alpha"), ({"form": "log10"}, "form")],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    from gar.integrations.keras import KerasGARLoss

    with pytest.raises(InputError, match=message):
        KerasGARLoss(**arguments)


def test_shapes_that_differ_are_named() -> None:
    from gar.integrations.keras import KerasGARLoss

    with pytest.raises(InputError, match=r"y_pred has shape \(4, 2\), y_true \(4,\)"):
        KerasGARLoss()(np.zeros(4), np.zeros((4, 2)))


def test_sequences_and_masks() -> None:
    """Positions of a sequence are targets; one that Keras masks does not count, nor does one that a weight per step leaves out."""
    from gar.integrations.keras import KerasGARLoss

    pred, target = torch.randn(12, 5, 2), torch.randn(12, 5, 2)
    counts = torch.rand(12, 5) > 0.3
    expected = gar_loss(pred.flatten(1), target.flatten(1), mask=counts.repeat_interleave(2, 1))
    masked = pred.clone()
    masked._keras_mask = counts  # type: ignore[attr-defined]
    for value in (KerasGARLoss()(target, pred, counts.float()), KerasGARLoss()(target, masked)):
        assert float(value) == pytest.approx(expected.item(), abs=1e-6)
