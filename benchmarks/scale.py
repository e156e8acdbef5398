"""Time, memory and error of ``GARRegressorCV`` on large tables, beside LightGBM's.

    GAR_DATA_HOME=... python -m benchmarks.scale

Every row runs in a process of its own with two workers, and writes a record; ``--table`` prints the table from the records alone.
Peak memory is that of the process and its workers together, memory that they share counted once.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil  # type: ignore[import-untyped]

from gar.files import write_whole

RECORDS = Path(__file__).parent / "records" / "scale"
CASES: dict[str, dict[str, Any]] = {
    "generated-16000": {"title": "generated, 16,000 x 20", "rows": 16_000},
    "generated-1000000": {"title": "generated, 1,000,000 x 20, `time_limit=600`", "rows": 1_000_000, "time_limit": 600},
    "beijing_air_pm25": {"title": "beijing_air_pm25 as it is (text, dates, gaps), nine tenths"},
}
TEST_ROWS = 20_000


def generated(rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a smooth function of seven of twenty features, with noise."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 20))
    y = np.sin(2 * x[:, 0] * x[:, 1]) + x[:, 2] ** 2 - np.abs(x[:, 3]) + x[:, 4] * x[:, 5] + 0.5 * x[:, 6]
    return pd.DataFrame(x, columns=[f"feature {index}" for index in range(20)]), y + 0.3 * generator.normal(size=rows)


def table_of(case: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return features, labels and the number of training rows, which come first."""
    if "rows" in CASES[case]:
        rows = CASES[case]["rows"]
        x, y = generated(rows + TEST_ROWS)
        return x, y, np.arange(rows)
    frame = pd.read_csv(Path(os.environ["GAR_DATA_HOME"]) / "tables" / f"{case}.csv.gz", low_memory=False)
    frame = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
    return frame.drop(columns="target"), frame["target"].to_numpy(np.float64), np.arange(len(frame) * 9 // 10)


def lightgbm_errors(x: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Return the errors of LightGBM's defaults, and of 500 rounds."""
    from lightgbm import LGBMRegressor

    from benchmarks.against.tables import with_date_parts

    x = with_date_parts(x)
    x = x.assign(**{name: x[name].astype("category") for name in x.columns if not pd.api.types.is_numeric_dtype(x[name])})
    found: dict[str, Any] = {}
    for rounds in (100, 500):
        start = time.monotonic()
        model = LGBMRegressor(n_estimators=rounds, n_jobs=2, verbose=-1).fit(x.iloc[train], y[train])
        found |= {f"lightgbm_{rounds}": errors(np.asarray(model.predict(x.iloc[test])), y[test], time.monotonic() - start)}
    return found


def errors(pred: np.ndarray, target: np.ndarray, seconds: float) -> dict[str, float]:
    error = pred - target
    return {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt((error**2).mean())), "seconds": round(seconds, 1)}


class PeakMemory(threading.Thread):
    """Watches the memory of this process and its children twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0

    def run(self) -> None:
        this = psutil.Process()
        while True:
            total = 0
            for process in (this, *this.children(recursive=True)):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:  # a worker that has just ended
                    continue
            self.peak = max(self.peak, total)
            time.sleep(0.5)


def run(case: str) -> None:
    """Measure one case in this process, and write its record."""
    from gar import GARRegressorCV

    x, y, train = table_of(case)
    test = np.arange(len(train), len(y))
    record = {"case": case, "rows": len(train), "columns": x.shape[1], **lightgbm_errors(x, y, train, test)}
    memory, limit = PeakMemory(), CASES[case].get("time_limit")
    memory.start()
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GARRegressorCV(time_limit=limit, n_jobs=2, random_state=0, verbose=True).fit(x.iloc[train], y[train])
    seconds = time.monotonic() - start
    record["gar"] = errors(np.asarray(model.predict(x.iloc[test])), y[test], seconds)
    record |= {"peak_gb": round(memory.peak / 1e9, 2), "networks": sum(len(member.networks) for member in model.members_)}
    record["warnings"] = [str(warning.message) for warning in caught if "time_limit" in str(warning.message)]
    write_whole(RECORDS / f"{case}.json", json.dumps(record, indent=1).encode() + b"\n")
    print(json.dumps(record, indent=1))


def table() -> str:
    lines = ["| table | seconds | peak memory | RMSE | LightGBM, defaults | LightGBM, 500 rounds |", "|---|---|---|---|---|---|"]
    for case, about in CASES.items():
        path = RECORDS / f"{case}.json"
        if path.exists():
            record = json.loads(path.read_text())
            cells = [f"{record['gar']['seconds']:.0f}", f"{record['peak_gb']:.1f} GB", f"{record['gar']['rmse']:.4g}"]
            cells += [
                f"{record[rival]['rmse']:.4g} ({record[rival]['seconds']:.0f} s)" for rival in ("lightgbm_100", "lightgbm_500")
            ]
            lines.append(f"| {about['title']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--here", action="store_true", help="run one case in this process")
    given = parser.parse_args()
    RECORDS.mkdir(parents=True, exist_ok=True)
    if given.here:
        run(given.cases[0])
        return
    for case in given.cases or ([] if given.table else CASES):
        if not (RECORDS / f"{case}.json").exists():
            subprocess.run([sys.executable, "-m", "benchmarks.scale", case, "--here"], check=True)
    print(table())


if __name__ == "__main__":
    main()
