"""How good the estimator is without tuning by hand: test errors on the paper's tables, by loss with the same hyperparameters.

    GAR_DATA_HOME=... python -m benchmarks.strength                   # train what has no record yet, then print the table
    GAR_DATA_HOME=... python -m benchmarks.strength concrete gar      # one table, one loss
    python -m benchmarks.strength --table                             # from the records alone

The split of the paper's tables, as `gar reproduce` has it: the estimator trains on four fifths of the training part and chooses
by the fifth, five times. Test rows are looked at once, at the end. A record holds the test error of each of the five folds'
networks and that of the mean of all, which is what the estimator predicts.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gar import GARRegressorCV
from gar.files import write_whole
from gar.registry import LOSSES
from gar_reproduction import published
from gar_reproduction.protocol import table_data

RECORDS = Path(__file__).parent / "records" / "strength"
TASKS = {
    "concrete": "Concrete",
    "wine": "Wine",
    "parkinson-total": "Parkinson total",
    "parkinson-motor": "Parkinson motor",
    "superconductivity": "Superconductivity",
}
COMPARED = ("gar", "mae")


def run(task: str, loss: str) -> dict[str, Any]:
    data = table_data(task)
    x, y = data.x.numpy(), data.y.numpy()[:, 0]
    test, start = data.folds[0].test, time.perf_counter()
    cv = [(fold.train, fold.valid) for fold in data.folds]
    model = GARRegressorCV(loss, cv=cv, scoring="mae", random_state=0, n_jobs=-1).fit(x, y)
    each = [np.abs(pred - y[test]).mean() for pred in fold_predictions(model, torch.from_numpy(x[test]))]
    return {
        "task": task,
        "loss": loss,
        "test_mae_of_each": [float(value) for value in each],
        "test_mae_of_mean": float(np.abs(model.predict(x[test]) - y[test]).mean()),
        "validation_mae": -model.best_score_,
        "chosen": model.fold_params_,
        "seconds_on_two_cores": round(time.perf_counter() - start, 1),
    }


def fold_predictions(model: GARRegressorCV, x: torch.Tensor) -> list[np.ndarray]:
    """Return the mean prediction of the networks of each fold, for a table of numbers without gaps."""
    of_networks = torch.cat([member.predict(x)[..., 0] for member in model.members_])
    return [own.mean(0).numpy() for own in of_networks.split([len(chosen) for chosen in model.fold_params_])]


def record_of(task: str, loss: str) -> Path:
    return RECORDS / f"{task}-{loss}.json"


def train_missing(tasks: list[str], losses: list[str]) -> None:
    RECORDS.mkdir(parents=True, exist_ok=True)
    for loss in losses:
        for task in tasks:
            path = record_of(task, loss)
            if not path.exists():
                record = run(task, loss)
                write_whole(path, json.dumps(record, indent=1).encode() + b"\n")
                print(
                    task, loss, record["test_mae_of_each"], record["test_mae_of_mean"], record["seconds_on_two_cores"], flush=True
                )


def cell(task: str, loss: str) -> str:
    path = record_of(task, loss)
    if not path.exists():
        return "not run"
    record = json.loads(path.read_text())
    each = record["test_mae_of_each"]
    return f"{np.mean(each):.3f} ({np.std(each):.3f}), mean of all {record['test_mae_of_mean']:.3f}"


def table() -> str:
    lines = ["| loss | " + " | ".join(TASKS.values()) + " |", "|---|" + "---|" * len(TASKS)]
    paper = published.scores("table1")
    lines.append("| GAR in the paper | " + " | ".join(f"{paper[task, 'gar', 'mae'].mean:.3f}" for task in TASKS) + " |")
    lines += [f"| {LOSSES[loss].title} | " + " | ".join(cell(task, loss) for task in TASKS) + " |" for loss in COMPARED]
    return "\n".join(lines)


def main() -> None:
    words = sys.argv[1:]
    if words != ["--table"]:
        tasks, losses = [word for word in words if word in TASKS], [word for word in words if word in COMPARED]
        train_missing(tasks or list(TASKS), losses or list(COMPARED))
    print(table())


if __name__ == "__main__":
    main()
