"""Boosted trees with GAR against the objectives they come with: a table of test errors, and what the objective costs.

    GAR_DATA_HOME=... python -m benchmarks.boosting table     # trains what has no record yet, and does that
    python -m benchmarks.boosting render                      # writes the tables of docs/boosting.md anew from the records
    python -m benchmarks.boosting convergence                 # how the training loss falls, round by round
    python -m benchmarks.boosting warm-up                     # why the correlation is added after a warm-up
    python -m benchmarks.boosting overhead                    # whole training on a million rows, in turns

Every objective gets the same grid: two depths, two learning rates, and two values of its parameter (GAR's alpha 1 and 10, Huber's
slope 1 and the standard deviation of the labels, two seeds for the others). The validation rows of a fold choose among these and
the rounds, for each metric by itself; the test rows, which no choice has seen, give the number. On grouped tables there is one
depth and one rate, and correlations are those within groups.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost

from benchmarks.boosting_grid import GROUPED, LIBRARIES, METRICS, OBJECTIVES, TASKS, fold_rows, objectives, problem, scores, train
from benchmarks.strength import record_of
from benchmarks.timing import in_words, print_table
from gar.boosting import GARObjective
from gar.registry import METRICS as REGISTERED
from gar.statistics import corrected_resampled_t, two_sample_t
from gar_reproduction.data.splits import authors_split

PAGE = Path(__file__).parent.parent / "docs" / "boosting.md"
PUBLISHED = {
    "concrete": "4.603 (0.075) | 6.222 (0.148) | 0.929 (0.004) | 0.931 (0.003)",
    "wine": "0.494 (0.004) | 0.69 (0.004) | 0.613 (0.011) | 0.635 (0.007)",
    "parkinson-total": "2.64 (0.071) | 4.258 (0.206) | 0.922 (0.009) | 0.907 (0.01)",
    "parkinson-motor": "1.652 (0.069) | 2.68 (0.134) | 0.943 (0.006) | 0.939 (0.006)",
}
"""GAR's networks in the paper's Table 1, on the same test rows and folds."""


def tables(task: str) -> str:
    """Return the records of a task as Markdown, between the marker lines that :func:`update` searches for."""
    return "\n".join((f"<!-- begin {task} -->", f"### {task}", "", *_scores(task), "", *_p_values(task), f"<!-- end {task} -->"))


def update(page: Path, tasks: Sequence[str]) -> None:
    """Render the tables of a page anew from the records."""
    text = page.read_text()
    for task in tasks:
        begin, end = text.index(f"<!-- begin {task} -->"), text.index(f"<!-- end {task} -->") + len(f"<!-- end {task} -->")
        text = text[:begin] + tables(task) + text[end:]
    page.write_text(text)


def _scores(task: str) -> Iterator[str]:
    yield "| trees | objective | MAE | RMSE | Pearson | Spearman |"
    yield "|---|---|---|---|---|---|"
    for library, objective in product(LIBRARIES, objectives(task)):
        values = [scores(task, library, objective, metric) for metric in METRICS]
        cells = [f"{np.mean(v):.4f} ({np.std(v):.4f})" if len(v) == 5 else "-" for v in values]
        yield f"| {library} | {objective} | {' | '.join(cells)} |"
    if task in PUBLISHED:
        each = json.loads(record_of(task, "gar").read_text())["test_mae_of_each"]
        yield f"| network, [default settings](strength.md) | GAR | {np.mean(each):.4f} ({np.std(each):.4f}) | | | |"
        yield f"| network, as published | GAR | {PUBLISHED[task]} |"


def _p_values(task: str) -> Iterator[str]:
    """Yield a table that compares GAR with the library's best built-in objective, metric by metric."""
    yield "| trees | objective | MAE | RMSE | Pearson | Spearman |"
    yield "|---|---|---|---|---|---|"
    for library, mine in product(LIBRARIES, objectives(task)[3:]):
        yield f"| {library} | {mine} | {' | '.join(_against_best(task, library, mine, metric) for metric in METRICS)} |"


def _against_best(task: str, library: str, mine: str, metric: str) -> str:
    sign = REGISTERED[metric].sign
    values = scores(task, library, mine, metric)
    rivals = {rival: scores(task, library, rival, metric) for rival in OBJECTIVES[:3]}
    if len(values) < 5 or min(map(len, rivals.values())) < 5:
        return "-"
    best = max(rivals, key=lambda rival: sign * float(np.mean(rivals[rival])))
    honest = corrected_resampled_t(values, rivals[best], **fold_rows(task, library, mine))
    better = "better" if sign * (np.mean(values) - np.mean(rivals[best])) > 0 else "worse"
    return f"{better} than {best}, p {two_sample_t(values, rivals[best]):.3f}, {honest:.3f}"


def rises(values: np.ndarray) -> float:
    """Return the largest relative rise of a loss above its earlier minimum, from its logarithms; negative if it never rises."""
    return float(np.expm1((values[1:] - np.minimum.accumulate(values)[:-1]).max()))


class Watch:
    """An objective that records the training loss of every round."""

    def __init__(self, alpha: float) -> None:
        self.objective, self.values = GARObjective(alpha=alpha), list[float]()

    def __call__(self, pred: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
        self.values.append(self.objective.derivatives(data.get_label(), pred).value)
        return self.objective(pred, data)

    def __deepcopy__(self, memo: object) -> "Watch":
        return self  # LightGBM copies its parameters


def losses_of_rounds(library: str, x: np.ndarray, y: np.ndarray, alpha: float, rounds: int, *, start: float) -> np.ndarray:
    """Return the training loss of every round with the library's defaults: rate 0.3 and depth 6, or rate 0.1 and 31 leaves."""
    watch = Watch(alpha)
    if library == "xgboost":
        params = {"base_score": start, "nthread": 1, "disable_default_eval_metric": True}
        xgboost.train(params, xgboost.DMatrix(x, y), rounds, obj=watch)
    else:
        data = lightgbm.Dataset(x, y, init_score=np.full(len(y), start))
        lightgbm.train({"objective": watch, "verbose": -1, "num_threads": 1}, data, rounds)
    return np.array(watch.values)


def convergence(rounds: int = 500, alphas: Sequence[float] = (0.1, 0.5, 1.0, 2.0, 10.0)) -> None:
    """Print the training loss before the first and the last round, and its largest rise."""
    print("| task | trees |", *(f"alpha {alpha:g} |" for alpha in alphas))
    print("|---|---|" + "---|" * len(alphas))
    for task, library in product(TASKS, LIBRARIES):
        data = authors_split(task)
        x, y = data.x.numpy(), data.y[:, 0].numpy()
        runs = [losses_of_rounds(library, x, y, alpha, rounds, start=float(np.median(y))) for alpha in alphas]
        print(
            f"| {task} | {library} |", *(f"{v[0]:.2f} to {v[-1]:.2f}, {100 * max(rises(v), 0.0):.2f} % |" for v in runs), flush=True
        )


def warm_up(rounds: int = 400) -> None:
    """Print scores with and without warm-up of the correlation: alpha 10, depth 5, rate 0.1, best rounds of the validation rows."""
    print("| task | warm-up | MAE | Pearson | spread after 50 rounds | likeness to squared error |\n|---|---|---|---|---|---|")
    for task, share in product(TASKS[:2], (0.0, 0.5, 0.8, 0.9)):
        data = problem(task)
        found = [_best_of_rounds(data.x, data.y, fold, GARObjective(alpha=10.0, warm_up=share), rounds) for fold in data.folds[:2]]
        print(f"| {task} | {share:g} | {' | '.join(f'{value:.3f}' for value in np.mean(found, 0))} |", flush=True)


def _best_of_rounds(x: np.ndarray, y: np.ndarray, fold: Any, objective: GARObjective, rounds: int) -> tuple[float, ...]:
    train_rows, valid_rows, _ = fold
    data = xgboost.DMatrix(x[train_rows], y[train_rows])
    params = {"max_depth": 5, "eta": 0.1, "nthread": 1, "base_score": objective.starting_score(y[train_rows])}
    model = xgboost.train(params | {"disable_default_eval_metric": True}, data, rounds, obj=objective)
    valid = xgboost.DMatrix(x[valid_rows])
    predictions = [model.predict(valid, iteration_range=(0, last)) for last in range(10, rounds + 1, 10)]
    errors = [float(np.abs(pred - y[valid_rows]).mean()) for pred in predictions]
    correlations = [float(np.corrcoef(pred, y[valid_rows])[0, 1]) for pred in predictions]
    early = model.predict(data, iteration_range=(0, 50))
    gradient, error = objective.derivatives(y[train_rows], early).gradient, early - y[train_rows]
    likeness = gradient @ error / np.sqrt((gradient @ gradient) * (error @ error))
    return min(errors), max(correlations), float(early.std() / y[train_rows].std()), float(likeness)


def in_python(pred: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Compute squared error as a custom objective, which shows the cost of any custom objective."""
    return (pred - data.get_label()).astype(np.float32), np.ones(len(pred), np.float32)


def overhead(rows: int = 1_000_000, features: int = 10, rounds: int = 100, turns: int = 4) -> None:
    """Print processor times of whole trainings in one thread, built-in squared error and others in turns; the best turn counts."""
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, features)).astype(np.float32)
    y = (x[:, 0] + np.sin(3 * x[:, 1]) * x[:, 2] + 0.3 * random.normal(size=rows)).astype(np.float32)
    start = GARObjective.starting_score(y)

    def with_xgboost(objective: Any) -> None:
        params = {"nthread": 1, "tree_method": "hist", "base_score": start, "disable_default_eval_metric": 1}
        xgboost.train(params, xgboost.QuantileDMatrix(x, y, nthread=1), rounds, obj=objective)

    def with_lightgbm(objective: Any) -> None:
        params: dict[str, Any] = {"num_threads": 1, "verbose": -1, "objective": objective or "l2"}
        lightgbm.train(params, lightgbm.Dataset(x, y, init_score=np.full(rows, start) if objective else None), rounds)

    objectives, table = (None, in_python, GARObjective(alpha=1.0)), []
    for name, fit in (("xgboost", with_xgboost), ("lightgbm", with_lightgbm)):
        best = [float("inf")] * len(objectives)
        for _, (index, objective) in product(range(turns), enumerate(objectives)):
            begin = time.process_time()
            fit(objective)
            best[index] = min(best[index], time.process_time() - begin)
        python, gar = (f"{in_words(seconds)}, {seconds / best[0]:.2f}" for seconds in best[1:])
        table.append((f"{name}, {rounds} rounds", in_words(best[0]), python, gar))
    print_table(table, (f"{rows:,} rows, {features} features", "squared error", "the same in Python, ratio", "GAR, ratio"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("table", "render", "convergence", "warm-up", "overhead"))
    parser.add_argument("tasks", nargs="*", default=(*TASKS, *GROUPED))
    arguments = parser.parse_args()
    measures: dict[str, Callable[[], None]] = {"convergence": convergence, "warm-up": warm_up, "overhead": overhead}
    if arguments.what in measures:
        measures[arguments.what]()
    else:
        if arguments.what == "table":
            train(tuple(arguments.tasks))
        update(PAGE, arguments.tasks)


if __name__ == "__main__":
    main()
