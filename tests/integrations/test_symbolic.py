"""GAR in symbolic regression: gplearn itself, and the mathematics of the code for PySR."""

import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch

from gar import InputError
from gar.functional import gar_loss
from gar.integrations.symbolic import WORST, gplearn_fitness, lacking_gplearn, pysr_loss

ALPHAS = (0.0, 0.1, 1.0, 10.0, math.inf)
SETTINGS: tuple[dict[str, Any], ...] = ({}, {"components": ("diff", "diffnorm"), "weights": (0.5, 2.0)}, {"components": ("mae",)})
needs_gplearn = pytest.mark.skipif(lacking_gplearn() is not None, reason=str(lacking_gplearn()))


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=40), random.normal(size=40), random.integers(0, 3, 40).astype(float)


def expected(pred: np.ndarray, target: np.ndarray, weight: np.ndarray, **settings: Any) -> float:
    tensors = (torch.from_numpy(values) for values in (pred, target))
    return gar_loss(*tensors, sample_weight=torch.from_numpy(weight), form="exp", **settings).item()


def run_julia(code: str, pred: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
    """The assignments of the code, read as Python: with dots and powers rewritten they mean the same there."""
    names: dict[str, Any] = {"pred": pred, "target": target, "weight": weight, "abs": np.abs, "sum": np.sum, "max": max, "min": min}
    names |= {"sqrt": np.sqrt, "exp": np.exp, "log": np.log}
    body = [line.strip() for line in code.splitlines() if re.match(r"\s+\w+ = ", line) and "dataset" not in line]
    assert body[-1].startswith("value = ")
    for line in body:
        name, expression = line.split(" = ", 1)
        python = re.sub(r"\.([-+*/(])", r"\1", expression.replace("^", "**"))
        names[name] = eval(python, {"__builtins__": {}}, names)
    return float(names["value"])


@needs_gplearn
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_both_are_the_loss(alpha: float, settings: dict[str, Any]) -> None:
    pred, target, weight = rows()
    value = expected(pred, target, weight, alpha=alpha, **settings)
    assert gplearn_fitness(alpha=alpha, **settings)(target, pred, weight) == pytest.approx(value, rel=1e-12)
    assert run_julia(pysr_loss(alpha=alpha, **settings), pred, target, weight) == pytest.approx(value, rel=1e-9)


def test_code_for_pysr_has_the_frame_that_it_asks_for() -> None:
    code = pysr_loss(alpha=0.5)
    assert code.startswith("function gar(tree, dataset::Dataset{T,L}, options)::L where {T,L}\n")
    assert code.endswith("\nend")
    assert code.count("(") == code.count(")")
    assert "complete || return L(Inf)" in code


@needs_gplearn
def test_constant_programs_are_no_accident() -> None:
    """Many programs of a first generation are constant: finite, with the correlation 0."""
    _, target, weight = rows()
    constant = np.full(40, 0.3)
    value = expected(constant, target, weight, alpha=1.0)
    assert gplearn_fitness()(target, constant, weight) == pytest.approx(value)
    assert run_julia(pysr_loss(), constant, target, weight) == pytest.approx(value)


@needs_gplearn
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_programs_that_are_not_finite_are_the_worst(bad: float) -> None:
    pred, target, weight = rows()
    pred[3], weight[3] = bad, 1.0
    assert gplearn_fitness()(target, pred, weight) == WORST


@needs_gplearn
def test_gplearn_finds_a_formula() -> None:
    from gplearn import genetic

    x = np.random.default_rng(0).normal(size=(100, 2))
    y = x[:, 0] * x[:, 1] + x[:, 0]
    model = genetic.SymbolicRegressor(
        population_size=300, generations=6, metric=gplearn_fitness(), random_state=0, parsimony_coefficient=0.001
    ).fit(x, y)
    assert np.corrcoef(model.predict(x), y)[0, 1] > 0.99
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize("make", [pytest.param(gplearn_fitness, marks=needs_gplearn), pysr_loss])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, "alpha=-1"),
        ({"components": ("mse",)}, "'mse' is unknown"),
        ({"weights": (1.0,)}, "1 values for 3"),
    ],
)
def test_bad_input(make: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**arguments)


def test_without_gplearn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gplearn.fitness", None)
    with pytest.raises(InputError, match="install the extra 'symbolic'"):
        gplearn_fitness()
