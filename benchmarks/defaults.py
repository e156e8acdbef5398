"""How the default network and learning rates of the estimators were chosen: scores on rows left out, never on a test set.

    python -m benchmarks.defaults

Tables: scikit-learn's diabetes, a generated one (Friedman 1), and the training part of Concrete if the folder that GAR_DATA_HOME
names has the authors' file. Shown are the mean absolute error of the combination that is best over five folds, and that of the
winners of the folds, which the estimator predicts with.
"""

import os
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1

from gar import GARRegressorCV

RATES = (2e-2, 1e-2, 3e-3)
RECIPES = (((64, 64), 200), ((128, 128), 100), ((128, 128), 200), ((256, 256), 100))


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {"diabetes": load_diabetes(return_X_y=True), "Friedman 1": make_friedman1(800, 10, noise=1.0, random_state=0)}
    home = os.environ.get("GAR_DATA_HOME")
    if home:
        with np.load(Path(home) / "authors" / "CCS.npz") as file:
            found["Concrete, training part"] = (file["trX"], file["trY"][:, 0])
    return found


def main() -> None:
    print("| table | hidden sizes | epochs | best over folds | winners | seconds |")
    print("|---|---|---|---|---|---|")
    for name, (x, y) in tables().items():
        for widths, epochs in RECIPES:
            start = time.perf_counter()
            model = GARRegressorCV(
                hidden_sizes=widths, epochs=epochs, scoring="mae", learning_rates=RATES, random_state=0, n_jobs=-1
            ).fit(x, y)
            folds = [model.cv_results_[f"split{fold}_test_score"].max() for fold in range(5)]
            scores = f"{-model.best_score_:.3f} | {-np.mean(folds):.3f}"
            print(f"| {name} | {widths} | {epochs} | {scores} | {time.perf_counter() - start:.1f} |", flush=True)


if __name__ == "__main__":
    main()
