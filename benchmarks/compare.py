"""Whether `gar compare` keeps its promises on tables as they are: with text, gaps, groups, dates.

    GAR_DATA_HOME=... python -m benchmarks.compare               # run what has no record yet, then print the table
    GAR_DATA_HOME=... python -m benchmarks.compare wage          # one table
    python -m benchmarks.compare --table                         # from the records alone

For each table two commands are run as a user would, and their reports are read:

- `gar compare ... --losses mae,gar`: the time after the plan over the plan's estimate; whether the page says what `results.json`
  says; the score of the saved model over that of `gar predict` on the test rows; and its MAE over that of `GARRegressorCV`, with
  the same loss and its default folds, on the same rows;
- `gar compare ... --time-limit 0.5`: its wall-clock time over the limit.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gar import GARRegressorCV
from gar.app.compare import Options, source_of_file
from gar.app.compare.source import prepare
from gar.app.report.results import Results
from gar.app.report.summary import headline, saved_text
from gar.files import write_whole

RECORDS = Path(__file__).parent / "records" / "compare"
TABLES: dict[str, tuple[str, ...]] = {
    "hitters": (),
    "college": (),
    "wage": (),
    "ames_housing": (),
    "flip_gb1": ("--drop", "split_one_vs_rest,split_two_vs_rest,split_three_vs_rest,split_low_vs_high,split_sampled"),
    "seoul_bike": (),
    "nlswork_wages": ("--group", "idcode"),
    "california_housing": (),
    "metro_traffic": ("--time", "year"),
}
"""Options for the columns of each table."""
_MINUTES = 0.5


def run(name: str) -> dict[str, Any]:
    file = Path(os.environ["GAR_DATA_HOME"]) / "tables" / f"{name}.csv.gz"
    with tempfile.TemporaryDirectory() as folder:
        return compared(name, file, Path(folder)) | limited(file, TABLES[name], Path(folder))


def compared(name: str, file: Path, folder: Path) -> dict[str, Any]:
    """Compare two losses without a limit, and check the report."""
    start = time.monotonic()
    command = [sys.executable, "-m", "gar", "compare", str(file), "-t", "target", *TABLES[name]]
    process = subprocess.Popen(
        [*command, "--losses", "mae,gar", "--out", "full"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    planned = 0.0
    for line in process.stderr:
        planned = time.monotonic() if line.startswith("Plan:") else planned
    process.wait()
    seconds = time.monotonic() - planned
    results, page = Results.read(folder / "full"), (folder / "full" / "report.html").read_text()
    (problem,) = results.problems
    method = next(one for one in problem.methods if one.name == problem.saved)
    agrees = all(text.replace("'", "&#39;") in page for text in (headline(results), saved_text(problem)))
    return {
        "table": name,
        "rows": problem.rows,
        "seconds": round(time.monotonic() - start, 1),
        "seconds_over_estimate": round(seconds / (problem.estimated_seconds or np.nan), 2),
        "page_agrees": agrees,
        "saved": method.title,
        **predicted(name, file, folder, method.loss, method.ensemble["mae"]),
    }


def predicted(name: str, file: Path, folder: Path, loss: str, mae: float) -> dict[str, Any]:
    """Predict the test rows by the command and by the estimator itself."""
    given = dict(zip((one.removeprefix("--") for one in TABLES[name][::2]), TABLES[name][1::2], strict=True))
    drop = [given.pop("drop")] if "drop" in given else []
    prepared = prepare(source_of_file(file, targets=["target"], drop=drop, **given), Options())
    source, test = prepared.source, prepared.test
    source.features.iloc[test].to_csv(folder / "test.csv", index=False)
    printed = subprocess.run(
        [sys.executable, "-m", "gar", "predict", "full", "test.csv"], cwd=folder, capture_output=True, text=True, check=True
    )
    labels = source.labels[test, 0]
    rest = np.setdiff1d(np.arange(len(source.labels)), test)
    groups = None if source.groups is None else source.groups[rest]
    model = GARRegressorCV(loss, random_state=0).fit(source.features.iloc[rest], source.labels[rest, 0], groups=groups)
    own = float(np.abs(model.predict(source.features.iloc[test]) - labels).mean())
    again = float(np.abs(pd.Series(printed.stdout.splitlines()[1:], dtype=float) - labels).mean())
    return {"predict_over_report": round(again / mae, 6), "saved_over_estimator": round(mae / own, 4)}


def limited(file: Path, options: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Compare with a short limit."""
    start = time.monotonic()
    command = [sys.executable, "-m", "gar", "compare", str(file), "-t", "target", *options, "--time-limit", str(_MINUTES)]
    subprocess.run([*command, "--out", "limited", "--quiet"], cwd=folder, capture_output=True, check=True)
    assert Results.read(folder / "limited").problems
    return {"seconds_over_limit": round((time.monotonic() - start) / (60 * _MINUTES), 2)}


def table() -> str:
    """Return the records as a table in Markdown."""
    names = ["table", "rows", "seconds", "seconds_over_estimate", "seconds_over_limit", "page_agrees", "saved"]
    names += ["predict_over_report", "saved_over_estimator"]
    records = [json.loads(path.read_text()) for name in TABLES if (path := RECORDS / f"{name}.json").exists()]
    lines = ["| " + " | ".join(name.replace("_", " ") for name in names) + " |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(str(record[name]) for name in names) + " |" for record in records)])


def main() -> None:
    """Run what is asked for and print the table."""
    wanted = [] if "--table" in sys.argv else [name for name in sys.argv[1:] if name in TABLES] or list(TABLES)
    RECORDS.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        path = RECORDS / f"{name}.json"
        if not path.exists():
            write_whole(path, json.dumps(run(name), indent=1).encode() + b"\n")
            print(path.read_text(), flush=True)
    print(table())


if __name__ == "__main__":
    main()
