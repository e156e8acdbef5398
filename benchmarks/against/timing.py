"""Time of ``GARRegressorCV()`` and of RealMLP, one after the other on each table: ``python -m benchmarks.against.timing``.

Records of scores also have seconds, but were made at different times, and a busy machine stretches them. Here both sides take turns
in one run, in one thread each, and the claim is the ratio.
"""

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.against.methods import METHODS
from benchmarks.against.tables import table_of
from gar.files import write_whole

RECORD = Path(__file__).parent.parent / "records" / "timing.json"
TABLES = ("autompg", "energy", "wage", "seoul_bike", "power-plant", "kin8nm", "california_housing")


def seconds(method: str, name: str) -> float:
    table, start = table_of(name), time.process_time()
    METHODS[method](table)
    return round(time.process_time() - start, 1)


def main() -> None:
    import torch

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    for name in TABLES:
        rows.append({"table": name, **{method: seconds(method, name) for method in ("gar", "realmlp")}})
        print(rows[-1], flush=True)
    write_whole(RECORD, json.dumps(rows, indent=1).encode() + b"\n")


def ratio() -> float:
    """Return the median over tables of the time of GARRegressorCV over that of RealMLP."""
    return float(np.median([row["gar"] / row["realmlp"] for row in json.loads(RECORD.read_text())]))


if __name__ == "__main__":
    main()
