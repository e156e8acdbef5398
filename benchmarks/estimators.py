"""The default fit of GARRegressorCV against scikit-learn's GridSearchCV over MLPRegressor, for as many combinations.

    python -m benchmarks.estimators

Both try equally many combinations on five folds of a table of 1000 x 10 (Friedman 1): the same widths of layers, batches and
epochs, and Adam. GridSearchCV trains each combination for all epochs on every fold. GARRegressorCV uses successive halving: all
combinations in all encodings for a sixth of the epochs on one fold, the best sixth on the other folds, too, and three finalists for
all epochs. A sample of the fits of MLPRegressor is timed between those of the estimator, and scaled up.
"""

import statistics
import time
import warnings
from collections.abc import Callable

from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor

from gar import GARRegressorCV
from gar.estimators.presets import ESTIMATOR_PRESET, batch_size_for, epochs_for, widths

FOLDS, ROUNDS = 5, 3


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the processor time of this process, which other programs on the machine do not lengthen much."""
    start = clock()
    work()
    return clock() - start


def main() -> None:
    x, y = make_friedman1(1000, n_features=10, noise=1.0, random_state=0)
    rows = next(iter(KFold(FOLDS).split(x)))[0]
    batch, epochs = batch_size_for(len(rows)), epochs_for(len(rows))
    network = widths(ESTIMATOR_PRESET["hidden_sizes"], features=x.shape[1], rows=len(rows))
    warnings.simplefilter("ignore", ConvergenceWarning)  # it means 'ran all epochs', which both sides do

    def baseline() -> object:
        model = MLPRegressor(
            hidden_layer_sizes=network, batch_size=batch, max_iter=epochs, n_iter_no_change=epochs, learning_rate_init=5e-3
        )
        return model.fit(x[rows], y[rows])

    model = GARRegressorCV(random_state=0)
    one_fit, mine, parallel = [], [], []
    GARRegressorCV(epochs=1, n_jobs=-1).fit(x, y)  # workers started, libraries loaded
    for _ in range(ROUNDS):
        one_fit.append(seconds(baseline))
        mine.append(seconds(lambda: model.fit(x, y)))
        one_fit.append(seconds(baseline))
        parallel.append(seconds(lambda: clone(model).set_params(n_jobs=-1).fit(x, y), time.perf_counter))
    fits = FOLDS * len(model.cv_results_["params"]) + 1
    whole = fits * min(one_fit)
    print("| what | GridSearchCV(MLPRegressor) | GARRegressorCV() | ratio |\n|---|---|---|---|")
    for name, times in (("one core", mine), ("two cores (`n_jobs=-1`) against one", parallel)):
        print(f"| {fits} fits of {network}, 1000 x 10, {name} | {whole:.1f} s | {min(times):.2f} s | {whole / min(times):.0f}x |")
    print(f"medians: one fit of MLPRegressor {statistics.median(one_fit):.2f} s, GARRegressorCV {statistics.median(mine):.2f} s")


if __name__ == "__main__":
    main()
