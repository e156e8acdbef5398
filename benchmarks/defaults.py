"""How the defaults of the estimators were chosen: scores on validation rows, never on a test set.

    GAR_DATA_HOME=... python -m benchmarks.defaults

Tables: scikit-learn's diabetes, a generated one (Friedman 1), and the training parts of Concrete and of Parkinson (total) if the
folder that GAR_DATA_HOME names has the authors' files. It prints the mean absolute error of the combination that is best over five
folds, and that of the winners of the folds, with which the estimator predicts.
"""

import time
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1

from gar import GARRegressorCV
from gar_reproduction.data.splits import authors_split, has_authors_split

VARIANTS: dict[str, dict[str, Any]] = {
    "the default": {},
    "plain features only": {"encoding": None},
    "periodic features only": {"encoding": "periodic"},
    "piecewise features only": {"encoding": "piecewise"},
    "ELU": {"activation": "elu"},
    "two layers": {"hidden_sizes": (64, 64)},
    "three layers of 128": {"hidden_sizes": (128, 128, 128)},
    "100 epochs": {"epochs": 100},
    "batches of 64": {"batch_sizes": (64,)},
    "no successive halving": {"n_finalists": None},
}
SLOW = ("the default", "plain features only", "periodic features only", "piecewise features only", "ELU")
"""Variants that are tried on the large table."""


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {"diabetes": load_diabetes(return_X_y=True), "Friedman 1": make_friedman1(800, 10, noise=1.0, random_state=0)}
    for name, title in (("concrete", "Concrete, training part"), ("parkinson-total", "Parkinson, training part")):
        if has_authors_split(name):
            data = authors_split(name)
            rows = np.setdiff1d(np.arange(len(data.x)), data.folds[0].test)
            found[title] = (data.x.numpy()[rows], data.y.numpy()[rows, 0])
    return found


def main() -> None:
    print("| table | hyperparameters | best over folds | winners | seconds |\n|---|---|---|---|---|")
    for name, (x, y) in tables().items():
        for title, variant in VARIANTS.items():
            if name.startswith("Parkinson") and title not in SLOW:
                continue
            start = time.perf_counter()
            model = GARRegressorCV(scoring="mae", random_state=0, n_jobs=-1, **variant).fit(x, y)
            finalists = model.cv_results_["epochs"] == model.cv_results_["epochs"].max()
            folds = [model.cv_results_[f"split{fold}_test_score"][finalists].max() for fold in range(5)]
            seconds = time.perf_counter() - start
            print(f"| {name} | {title} | {-model.best_score_:.3f} | {-np.mean(folds):.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
