"""Symbolic regression on the paper's curves (appendix): programs that evolve by squared error, or by GAR.

The paper tries PySR, with and without sine and cosine among its functions. Here gplearn, which runs everywhere, does the same;
PySR, which needs Julia, is tried too where it is installed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from gar.integrations.symbolic import gplearn_fitness, lacking_gplearn, pysr_loss
from gar.search import RunContext
from gar_reproduction.curves import Fit, measured
from gar_reproduction.experiments import CURVES
from gar_reproduction.protocol import CURVE_SEEDS, curve_data
from gar_reproduction.studies import Study, nothing_missing

_MISSING = {"gplearn": lacking_gplearn, "pysr": nothing_missing}
"""Libraries, and how to find out what is missing for them; PySR's studies exist only where PySR is installed."""
TOOLBOXES = {"plain": "without sine", "trigonometric": "with sine"}
FITNESSES = {"mse": "squared error", "gar": "GAR"}
ALPHA = 1.0
_POPULATION, _GENERATIONS = 2000, 20
"""Settings of gplearn."""
_DRAWN = 256
"""Points of a curve that are recorded for figures."""
_STEP = 1e-4
"""Step of the central differences that estimate slopes."""

Program = tuple[str, Callable[[np.ndarray], np.ndarray]]
"""A program as text, and as a function of points."""


def symbolic_studies(tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Study]:
    """Return the studies of symbolic regression, all or some of them; PySR's only where it is installed."""
    return [
        Study(
            "symbolic", task, f"{library}-{toolbox}-{method}", partial(_measure, task, library, toolbox, method), _MISSING[library]
        )
        for task in CURVES
        for library in _MISSING
        if library == "gplearn" or find_spec("pysr")
        for toolbox in TOOLBOXES
        for method in FITNESSES
        if (not tasks or task in tasks) and (not methods or method in methods)
    ]


def read_fit(record: dict[str, Any]) -> Fit:
    """Return the fit that a record holds, at the points that are drawn."""
    return Fit(**{name: np.array(record[name]) for name in Fit._fields})


def _measure(task: str, library: str, toolbox: str, method: str) -> dict[str, Any]:
    """Evolve five programs with different seeds on the points that networks train on."""
    data = curve_data(task)
    x, y = data.x.numpy(), data.y.numpy()[:, 0]
    rows = data.folds[0].train
    evolve = {"gplearn": _gplearn, "pysr": _pysr}[library]
    # Programs are evaluated where they are found: gplearn's protected functions are its own.
    found = RunContext(workers=-1).map(_fitted, [(evolve, x, y, rows, toolbox, method, seed) for seed in CURVE_SEEDS])
    texts, predictions, slopes = zip(*found, strict=True)
    trained = np.isin(np.arange(len(x)), rows)
    fit = measured(task, x[:, 0], y, trained, np.stack(predictions), np.stack(slopes))
    drawn = np.linspace(0, len(x) - 1, min(_DRAWN, len(x))).astype(int)
    short = fit._replace(x=fit.x[drawn], y=fit.y[drawn], predictions=fit.predictions[:, drawn])
    numbers = {name: np.vectorize(_rounded)(value).tolist() for name, value in short._asdict().items()}
    return {"engine": f"{library} {version(library)}", "programs": list(texts), **numbers}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _fitted(
    evolve: Callable[..., Program], x: np.ndarray, y: np.ndarray, rows: np.ndarray, toolbox: str, method: str, seed: int
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the text of a program, and its values and slopes at all points."""
    text, predict = evolve(x[rows], y[rows], toolbox, method, seed)
    return text, predict(x), (predict(x + _STEP) - predict(x - _STEP)) / (2 * _STEP)


def _gplearn(x: np.ndarray, y: np.ndarray, toolbox: str, method: str, seed: int) -> Program:
    from gplearn.genetic import SymbolicRegressor

    functions = ("add", "sub", "mul", "div", "sqrt", "log", "abs", "neg", "inv")
    model = SymbolicRegressor(
        population_size=_POPULATION,
        generations=_GENERATIONS,
        const_range=(-5.0, 5.0),
        function_set=functions + (("sin", "cos") if toolbox == "trigonometric" else ()),
        metric="mse" if method == "mse" else gplearn_fitness(alpha=ALPHA),
        parsimony_coefficient=1e-3,
        stopping_criteria=1e-6,
        random_state=seed,
    ).fit(x, y)
    return str(model._program), model.predict


def _pysr(x: np.ndarray, y: np.ndarray, toolbox: str, method: str, seed: int) -> Program:
    from pysr import PySRRegressor

    model = PySRRegressor(
        binary_operators=["+", "-", "*", "/"],
        unary_operators=["sqrt", "log", "abs", *(["sin", "cos"] if toolbox == "trigonometric" else [])],
        random_state=seed,
        deterministic=True,
        parallelism="serial",
        progress=False,
        verbosity=0,
        temp_equation_file=True,
        **({} if method == "mse" else {"loss_function": pysr_loss(alpha=ALPHA)}),
    ).fit(x, y)
    return str(model.get_best()["equation"]), model.predict
