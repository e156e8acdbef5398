"""Run what has no record yet: ``GAR_DATA_HOME=... python -m benchmarks.against [METHOD or TABLE ...] [--held-out]``.

Records are one JSON file per method and table in ``benchmarks/records/against``: the four scores on the test rows, and the seconds
of processor time of one thread, which another process on the machine does not change much.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import pearsonr, spearmanr

from benchmarks.against.methods import METHODS
from benchmarks.against.tables import DEVELOPMENT, HELD_OUT, NAMES, table_of
from gar.files import write_whole

RECORDS = Path(__file__).parent.parent / "records" / "against"


def run(method: str, name: str) -> None:
    """Train one method on one table and write its record."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    table, start = table_of(name), time.process_time()
    pred = METHODS[method](table)
    seconds, target = time.process_time() - start, table.y[table.test]
    error = pred - target
    record = {
        "method": method,
        "table": name,
        "rows": len(table.y) - len(table.test),
        "test_rows": len(table.test),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "pearson": float(pearsonr(pred, target)[0]),
        "spearman": float(spearmanr(pred, target)[0]),
        "label_sd": float(target.std()),
        "seconds": round(seconds, 1),
    }
    write_whole(record_of(method, name), json.dumps(record, indent=1).encode() + b"\n")
    print(json.dumps(record), flush=True)


def record_of(method: str, name: str) -> Path:
    return RECORDS / f"{name}-{method}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="METHOD or TABLE", choices=[*METHODS, *NAMES, []])
    parser.add_argument("--held-out", action="store_true", help="the tables that nothing is tuned on, instead of the others")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    methods = [word for word in METHODS if word in given.words] or list(METHODS)
    names = [word for word in NAMES if word in given.words] or list(HELD_OUT if given.held_out else DEVELOPMENT)
    os.environ["OMP_NUM_THREADS"] = "1"
    RECORDS.mkdir(parents=True, exist_ok=True)
    missing = [(method, name) for method in methods for name in names if not record_of(method, name).exists()]
    Parallel(given.processes)(delayed(run)(method, name) for method, name in missing)


if __name__ == "__main__":
    main()
