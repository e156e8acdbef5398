"""Bad input to the objective: one clear error, from the function itself and through both libraries."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

from gar import InputError
from gar.boosting import GARBoostRegressor, GARObjective

X = np.random.default_rng(0).normal(size=(100, 2))
Y = X[:, 0]


def with_nan() -> np.ndarray:
    y = Y.copy()
    y[[3, 5]] = np.nan
    return y


def stopping(rows: int = 100, early_stopping_rounds: Any = 5, **more: Any) -> GARBoostRegressor:
    return GARBoostRegressor(early_stopping_rounds=early_stopping_rounds, **more).fit(X[:rows], Y[:rows])


CASES: tuple[tuple[str, Callable[[], Any], str], ...] = (
    ("NaN label", lambda: GARObjective()(with_nan(), Y), "labels have 2 NaN or infinite of 100 values; remove these rows"),
    ("infinite label", lambda: GARObjective()(np.append(Y, np.inf), np.append(Y, 0)), "labels have 1 NaN or infinite of 101"),
    ("one row", lambda: GARObjective()(Y[:1], Y[:1]), "compares rows, but there are 1; expected 2 or more"),
    ("no row", lambda: GARObjective()(Y[:0], Y[:0]), "compares rows, but there are 0"),
    ("constant label", lambda: GARObjective()(np.full(100, 0.1), Y), "labels are constant"),
    ("constant in groups", lambda: GARObjective(groups=np.arange(100) // 3)(np.arange(100) // 3, Y), "constant within every group"),
    ("short groups", lambda: GARObjective(groups=np.zeros(99))(Y, Y), "groups has 99 values, but there are 100 rows"),
    ("groups in a table", lambda: GARObjective(groups=np.zeros((100, 1))), r"groups has shape \(100, 1\)"),
    ("missing group", lambda: GARObjective(groups=np.append(np.zeros(99), np.nan)), "groups has 1 missing of 100 values.* row 99 "),
    ("no group", lambda: GARObjective(groups=["a", None, "b", np.nan] * 25), "50 missing of 100 values, the first in row 1 "),
    ("group in a column", lambda: GARObjective(groups=pd.Series(["a", "b", None])), "1 missing of 3 values, the first in row 2 "),
    ("pandas' NA", lambda: GARObjective(groups=pd.array([1, pd.NA, 2])), "1 missing of 3 values, the first in row 1 "),
    ("no day", lambda: GARObjective(groups=np.array(["2026-01-01", "NaT"], "M8[D]")), "1 missing of 2 values, the first in row 1 "),
    ("two outputs", lambda: GARObjective()(Y, np.stack([Y, Y], 1)), "predictions have shape .*fit one model per target"),
    ("negative weight", lambda: GARObjective()(Y, Y, -np.ones(100)), "sample_weight has minimum -1"),
    ("no weight", lambda: GARObjective()(Y, Y, np.zeros(100)), "not all of them 0"),
    ("short weight", lambda: GARObjective()(Y, Y, np.ones(99)), r"sample_weight has shape \(99,\); expected .*\(100,\)"),
    ("infinite prediction", lambda: GARObjective()(Y, np.append(Y[:99], np.inf)), "predictions are no longer finite"),
    ("words", lambda: GARObjective()(np.array(["a"] * 100), Y), "labels have dtype .* no numbers"),
    ("alpha", lambda: GARObjective(alpha=-1.0), "alpha=-1.0 is out of range"),
    ("component", lambda: GARObjective(components=("mse",)), "component='mse' is unknown"),  # type: ignore[arg-type]
    ("warm-up", lambda: GARObjective(warm_up=-0.1), "warm_up=-0.1 is out of range"),
    ("library", lambda: GARBoostRegressor(library="catboost").fit(X, Y), "library='catboost' is unknown"),
    ("targets", lambda: GARBoostRegressor(library="lightgbm").fit(X, X), "LightGBM trains one target; use library='xgboost'"),
    ("groups to fit", lambda: GARBoostRegressor().fit(X, Y, groups=np.zeros(7)), "groups has 7 values, but there are 100 rows"),
    ("constant to fit", lambda: GARBoostRegressor().fit(X, np.ones(100)), "labels are constant"),
    ("no patience", lambda: stopping(early_stopping_rounds=0), "early_stopping_rounds=0 is not a whole number of 1 or more"),
    ("half a round", lambda: stopping(early_stopping_rounds=0.5), "early_stopping_rounds=0.5 is not a whole number"),
    ("one row held out", lambda: stopping(10), "validation_fraction=0.1 leaves 1 of 10 rows out .* a larger validation_fraction"),
    ("one row kept", lambda: stopping(5, validation_fraction=0.8), "leaves 4 of 5 rows .* 1 to train on.* a smaller validation_fr"),
    ("parameter", lambda: GARBoostRegressor(max_depth=-1).fit(X, Y), "xgboost cannot train these trees: value -1 for .*max_depth"),
    ("leaves", lambda: GARBoostRegressor(library="lightgbm", max_depth=0).fit(X, Y), r"lightgbm cannot train .*leaves\) > \(1\)$"),
    ("start", lambda: GARObjective.starting_score(with_nan()), "labels have 2 NaN"),
)


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def train(library: str, y: np.ndarray, objective: GARObjective) -> None:
    if library == "xgboost":
        xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), 2, obj=objective)
    else:
        lightgbm.train({"objective": objective, "verbose": -1}, lightgbm.Dataset(X, y), 2)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_errors_reach_the_user_through_the_libraries(library: str) -> None:
    with pytest.raises(InputError, match="groups has 10 values, but there are 100 rows"):
        train(library, Y, GARObjective(groups=np.zeros(10)))
    with pytest.raises(InputError, match="labels are constant"):
        train(library, np.ones(100), GARObjective())


def test_nan_labels_reach_the_user_as_an_error() -> None:
    """``lightgbm.train`` alone cannot give one: LightGBM has made 0 of NaN before an objective sees it."""
    with pytest.raises((InputError, xgboost.core.XGBoostError), match="NaN"):
        train("xgboost", with_nan(), GARObjective())
    with pytest.raises(ValueError, match="NaN"):
        lightgbm.LGBMRegressor(objective=GARObjective(), verbose=-1).fit(X, with_nan())
    for library in ("xgboost", "lightgbm"):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            GARBoostRegressor(library=library).fit(X, with_nan())


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InputError, match=r"lightgbm is not installed; install the extra 'boosting'"):
        GARBoostRegressor(library="lightgbm").fit(X, Y)


def test_pandas_is_not_needed() -> None:
    """Neither library needs it, and the extra does not install it."""
    code = (
        "import sys; sys.modules['pandas'] = None; import numpy as np; from gar.boosting import GARBoostRegressor\n"
        "x = np.random.default_rng(0).normal(size=(60, 2)); groups = ['a', 'b', 3] * 20\n"
        "for library in ('xgboost', 'lightgbm'):\n"
        "    GARBoostRegressor(library=library, n_estimators=2).fit(x, x[:, 0], groups=groups).predict(x)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
