"""Bad labels and shifted rows: ``GAR_DATA_HOME=... python -m benchmarks.when.robustness [TABLE or CONDITION or METHOD ...]``.

Conditions change the training rows (with the validation rows among them) of five development tables, never the labels of the test:

- ``outliers-SHARE``: this percentage of labels is replaced by numbers drawn within twenty standard deviations of the mean;
- ``noise``: normal noise is added to labels, whose deviation grows from 0 to two standard deviations of the label along the feature
  that the label depends on most;
- ``shift``: rows are trained on where this feature is below its 80 % quantile, and tested above.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata, spearmanr

from benchmarks.against.tables import table_of
from benchmarks.recording import run_missing, scores

FOLDER = "robustness"
TABLES = ("wind", "cpu_act", "elevators", "bike_sharing_hour", "king_county_house_sales")
CONDITIONS = ("clean", "outliers-5", "outliers-10", "outliers-20", "noise", "shift")
METHODS: Mapping[str, Mapping[str, Any]] = {
    "gar": {},
    "mae": {"loss": "mae"},
    "mse": {"loss": "mse"},
    "huber": {"loss": "huber"},
    "gar_no_diff": {"loss_options": {"components": ("mae", "diffnorm")}},
    "gar_alpha_10": {"alphas": (10.0,)},
}
REACH, NOISE, SHIFTED = 20.0, 2.0, 0.2


def strongest_feature(x: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Return the ranks, from 0 to 1, of the numeric feature whose rank correlation with the label is largest."""
    numeric = x.select_dtypes("number").fillna(x.median(numeric_only=True))
    strength = [abs(spearmanr(numeric[name], y)[0]) if numeric[name].nunique() > 20 else 0.0 for name in numeric]
    return np.asarray((rankdata(numeric.iloc[:, int(np.argmax(strength))]) - 0.5) / len(y))


def changed(x: pd.DataFrame, y: np.ndarray, test: np.ndarray, condition: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels to train on, and the rows of training and test, under a condition."""
    train, generator = np.arange(test[0]), np.random.default_rng(0)
    labels, spread = y.copy(), y[train].std()
    kind, _, share = condition.partition("-")
    if kind == "outliers":
        hit = generator.choice(train, len(train) * int(share) // 100, replace=False)
        labels[hit] = y[train].mean() + REACH * spread * generator.uniform(-1, 1, len(hit))
    elif kind == "noise":
        labels += NOISE * spread * strongest_feature(x, y) * generator.normal(size=len(y))
    elif kind == "shift":
        is_above = strongest_feature(x, y) > 1 - SHIFTED
        train, test = train[~is_above[train]], test[is_above[test]]
    return labels, train, test


def measure(name: str, condition: str, method: str) -> dict[str, Any]:
    """Train one method on one table under one condition."""
    from gar import GARRegressorCV

    table, start = table_of(name), time.process_time()
    labels, train, test = changed(table.x, table.y, table.test, condition)
    model = GARRegressorCV(random_state=0, **METHODS[method]).fit(table.x.iloc[train], labels[train])
    found = scores(np.asarray(model.predict(table.x.iloc[test])), table.y[test])
    about = {"table": name, "condition": condition, "method": method, "rows": len(train), "label_sd": float(table.y[test].std())}
    return {**about, **found, "alpha": getattr(model, "alpha_", None), "seconds": round(time.process_time() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = [*METHODS, *CONDITIONS, *TABLES]
    parser.add_argument("words", nargs="*", metavar="TABLE or CONDITION or METHOD", choices=[*words, []])
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    chosen = [[word for word in all_words if word in given.words] or all_words for all_words in (TABLES, CONDITIONS, METHODS)]
    jobs = [(name, condition, method) for condition in chosen[1] for name in chosen[0] for method in chosen[2]]
    run_missing(FOLDER, jobs, measure, given.processes)


if __name__ == "__main__":
    main()
