"""Losses on public tables, five folds each: ``GAR_DATA_HOME=... python -m benchmarks.when [TABLE or LOSS ...] [--processes 2]``.

In each fold a fifth of the rows is the test. ``GARRegressorCV(loss=...)`` with its defaults is fitted on the others, and chooses by
validation rows among them. Records are one JSON file per table and loss in ``benchmarks/records/when``; a run continues.
"""

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kurtosis, skew
from sklearn.model_selection import KFold

from benchmarks.against.tables import NAMES, frame_of
from benchmarks.recording import run_missing, scores

FOLDER = "when"
LOSSES = ("gar", "mae", "mse", "huber", "concordance")
ROWS, FOLDS = 2500, 5


def sample_of(name: str, rows: int = ROWS) -> tuple[pd.DataFrame, np.ndarray]:
    """Return features and labels of at most ``rows`` rows of a table, drawn at random."""
    frame = frame_of(name)
    frame = frame.sample(min(rows, len(frame)), random_state=0).reset_index(drop=True)
    y = frame.pop("target").to_numpy(np.float64)
    return frame, y


def measure(name: str, loss: str) -> dict[str, Any]:
    """Train one loss on all folds of a table."""
    x, y = sample_of(name)
    split = KFold(FOLDS, shuffle=True, random_state=0).split(x)
    folds = [_measure_fold(x, y, train, test, loss, seed) for seed, (train, test) in enumerate(split)]
    label = {"sd": float(y.std()), "skew": float(skew(y)), "kurtosis": float(kurtosis(y)), "distinct": len(np.unique(y))}
    return {"table": name, "loss": loss, "rows": len(y), "columns": x.shape[1], "label": label, "folds": folds}


def _measure_fold(x: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray, loss: str, seed: int) -> dict[str, Any]:
    from gar import GARRegressorCV

    start = time.process_time()
    model = GARRegressorCV(loss=loss, random_state=seed).fit(x.iloc[train], y[train])
    found = scores(np.asarray(model.predict(x.iloc[test])), y[test])
    return {**found, "alpha": getattr(model, "alpha_", None), "seconds": round(time.process_time() - start, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="TABLE or LOSS", choices=[*LOSSES, *NAMES, []])
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    names = [word for word in NAMES if word in given.words] or NAMES
    losses = [word for word in LOSSES if word in given.words] or LOSSES
    run_missing(FOLDER, [(name, loss) for name in names for loss in losses], measure, given.processes)


if __name__ == "__main__":
    main()
