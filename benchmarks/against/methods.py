"""What is compared. Each method takes a table and returns predictions of its test rows: the mean of models of the five folds.

Rivals have their defaults. Trees stop when the error of the validation rows has not fallen for 50 rounds. Networks of pytabkit
choose their epoch by these rows. Text is a category to all of them, in the way that each prefers; ridge and networks have gaps
filled. The rivals are not among this project's extras: ``pip install -c constraints.txt pytabkit catboost``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.against.tables import Table, with_date_parts

Method = Callable[[Table], np.ndarray]
ROUNDS, PATIENCE = 5000, 50


def categorical(x: pd.DataFrame) -> list[str]:
    return [name for name in x.columns if not pd.api.types.is_numeric_dtype(x[name])]


def of_folds(table: Table, x: pd.DataFrame | np.ndarray, fit: Callable[..., Any]) -> np.ndarray:
    """Return the mean prediction of test rows over the folds; ``fit(x, y, x_valid, y_valid)`` returns a model."""
    take = (lambda rows: x.iloc[rows]) if isinstance(x, pd.DataFrame) else (lambda rows: x[rows])
    models = [fit(take(train), table.y[train], take(valid), table.y[valid]) for train, valid in table.folds]
    return np.mean([np.asarray(model.predict(take(table.test))).reshape(-1) for model in models], 0)


def as_categories(table: Table) -> pd.DataFrame:
    """Return text as categories of pandas, which XGBoost and LightGBM read; a value that training lacks is missing."""
    x = with_date_parts(table.x)
    known = x.iloc[: table.test[0]]
    return x.assign(**{name: pd.Categorical(x[name], categories=sorted(known[name].dropna().unique())) for name in categorical(x)})


def as_filled(table: Table) -> pd.DataFrame:
    """Return text with 'missing' for gaps, and numbers with the median of the training rows and an indicator column."""
    x = with_date_parts(table.x)
    text = categorical(x)
    x = x.assign(**{name: x[name].astype("string").fillna("missing").astype(object) for name in text})
    gaps = {f"{name} is missing": x[name].isna().astype(float) for name in x.columns.difference(text) if x[name].isna().any()}
    medians = x.iloc[: table.test[0]].drop(columns=text).median()
    return x.fillna(medians).assign(**gaps)


def as_numbers(table: Table) -> np.ndarray:
    """Return the table as the estimators of gar encode it; no training row has its own label in its features."""
    from gar.encoding import Encoder

    known = np.arange(table.test[0])
    encoder = Encoder.infer(table.x.iloc[known])
    codes = encoder.codes(table.x)
    fitted, features = encoder.fit_encode(codes[known], table.y[known, None])
    return np.vstack([features, fitted.encode(codes[table.test])])


def lightgbm(table: Table) -> np.ndarray:
    from lightgbm import LGBMRegressor, early_stopping

    def fit(x: Any, y: Any, x_valid: Any, y_valid: Any) -> Any:
        model = LGBMRegressor(n_estimators=ROUNDS, n_jobs=1, verbose=-1)
        return model.fit(x, y, eval_set=[(x_valid, y_valid)], callbacks=[early_stopping(PATIENCE, verbose=False)])

    return of_folds(table, as_categories(table), fit)


def xgboost(table: Table) -> np.ndarray:
    from xgboost import XGBRegressor

    def fit(x: Any, y: Any, x_valid: Any, y_valid: Any) -> Any:
        model = XGBRegressor(n_estimators=ROUNDS, early_stopping_rounds=PATIENCE, n_jobs=1, enable_categorical=True)
        return model.fit(x, y, eval_set=[(x_valid, y_valid)], verbose=False)

    return of_folds(table, as_categories(table), fit)


def catboost(table: Table) -> np.ndarray:
    from catboost import CatBoostRegressor

    x = with_date_parts(table.x)
    text = categorical(x)
    x = x.assign(**{name: x[name].astype("string").fillna("missing").astype(object) for name in text})

    def fit(x: Any, y: Any, x_valid: Any, y_valid: Any) -> Any:
        model = CatBoostRegressor(iterations=ROUNDS, thread_count=1, allow_writing_files=False, verbose=False, random_seed=0)
        return model.fit(x, y, cat_features=text, eval_set=(x_valid, y_valid), early_stopping_rounds=PATIENCE)

    return of_folds(table, x, fit)


def _pytabkit(name: str) -> Method:
    def method(table: Table) -> np.ndarray:
        import pytabkit

        x = as_filled(table)

        def fit(x: Any, y: Any, x_valid: Any, y_valid: Any) -> Any:
            model = getattr(pytabkit, name)(device="cpu", random_state=0, n_threads=1)
            return model.fit(x, y, x_valid, y_valid, cat_col_names=categorical(x))

        return of_folds(table, x, fit)

    return method


def ridge(table: Table) -> np.ndarray:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def fit(x: Any, y: Any, x_valid: Any, y_valid: Any) -> Any:
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))).fit(x, y)

    return of_folds(table, as_numbers(table), fit)


def _gar(**settings: Any) -> Method:
    def method(table: Table) -> np.ndarray:
        from gar import GARRegressorCV

        known = np.arange(table.test[0])
        model = GARRegressorCV(cv=table.folds, random_state=0, **settings).fit(table.x.iloc[known], table.y[known])
        return np.asarray(model.predict(table.x.iloc[table.test]))

    return method


METHODS: dict[str, Method] = {
    "gar": _gar(),
    "mae": _gar(loss="mae"),
    "mse": _gar(loss="mse"),
    "realmlp": _pytabkit("RealMLP_TD_Regressor"),
    "tabm": _pytabkit("TabM_D_Regressor"),
    "catboost": catboost,
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "ridge": ridge,
}

ALPHA_METHODS: dict[str, Method] = {
    "gar_grid": _gar(alphas=(0.1, 1.0, 10.0)),
    **{f"alpha_{alpha:g}": _gar(alphas=(alpha,)) for alpha in (0.5, 1.0, float("inf"))},
}
"""How the default alpha was chosen; these are run by name only, so that nobody looks at held-out tables by accident."""
