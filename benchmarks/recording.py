"""Records of measurements: one JSON file each, written whole, so that a stopped run continues with what is missing."""

import json
import os
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import pearsonr, spearmanr

from gar.files import write_whole

RECORDS = Path(__file__).parent / "records"

Job = tuple[str, ...]
"""The words that name a measurement and its record."""


def path_of(folder: str, job: Job) -> Path:
    """Return the path of a record."""
    return RECORDS / folder / f"{'-'.join(job)}.json"


def read(folder: str, *job: str) -> dict[str, Any] | None:
    """Return a record, or None if there is none yet."""
    path = path_of(folder, job)
    return json.loads(path.read_text()) if path.exists() else None


def run_missing(folder: str, jobs: Iterable[Job], measure: Callable[..., dict[str, Any]], processes: int = 1) -> None:
    """Call ``measure(*job)`` for every job without a record, in processes of one thread each, and write what it returns."""
    os.environ["OMP_NUM_THREADS"] = "1"
    (RECORDS / folder).mkdir(parents=True, exist_ok=True)
    missing = [job for job in jobs if not path_of(folder, job).exists()]
    Parallel(processes)(delayed(_run)(folder, job, measure) for job in missing)


def _run(folder: str, job: Job, measure: Callable[..., dict[str, Any]]) -> None:
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    record = measure(*job)
    write_whole(path_of(folder, job), json.dumps(record, indent=1).encode() + b"\n")
    print(json.dumps(record), flush=True)


def scores(pred: np.ndarray, target: np.ndarray) -> dict[str, float]:
    """Return the four metrics of predictions."""
    error = pred - target
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "pearson": float(pearsonr(pred, target)[0]),
        "spearman": float(spearmanr(pred, target)[0]),
    }
