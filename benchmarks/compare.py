"""Whether `gar compare` keeps its promises on tables as they are: with text, gaps, groups, dates.

    GAR_DATA_HOME=... python -m benchmarks.compare               # run what has no record yet, then render the page's table
    GAR_DATA_HOME=... python -m benchmarks.compare wage          # one table
    python -m benchmarks.compare --table                         # render from the records alone

For each table two commands are run as a user would, and their reports are read:

- `gar compare ... --losses mae,gar`: the time after the plan over the plan's estimate; whether the verdict and the page say what
  `results.json` says; the MAE of the saved model in the report over that of `gar predict` on the test rows; and over that of
  `GARRegressorCV` with the same loss, once on the same folds and once with its own;
- `gar compare ... --time-limit 0.5`: its wall-clock time over the limit.

On two cores with nothing else to do it takes about fifteen minutes. Times are only worth recording on such a machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.pages import write_tables
from gar import GARRegressorCV
from gar.app.compare import Options, source_of_file
from gar.app.compare.source import prepare
from gar.app.report.results import Results
from gar.app.report.summary import headline, saved_text
from gar.files import write_whole

RECORDS, PAGE = Path(__file__).parent / "records" / "compare", Path(__file__).parents[1] / "docs" / "tutorials" / "your-table.md"
TABLES: dict[str, tuple[str, ...]] = {
    "hitters": (),
    "college": (),
    "wage": (),
    "ames_housing": (),
    "flip_gb1": ("--drop", "split_one_vs_rest,split_two_vs_rest,split_three_vs_rest,split_low_vs_high,split_sampled"),
    "seoul_bike": (),
    "nlswork_wages": ("--group", "idcode"),
    "california_housing": (),
}
"""Options for the columns of each table."""
_MINUTES = 0.5
_HEADINGS = {
    "table": "table",
    "rows": "rows",
    "seconds": "seconds",
    "seconds_over_estimate": "over the estimate",
    "seconds_over_limit": "over a limit of 30 s",
    "saved": "saved",
    "over_predict": "MAE over `gar predict`",
    "over_estimator": "over `GARRegressorCV`",
    "over_estimator_with_own_folds": "with folds of its own",
}


def run(name: str) -> dict[str, Any]:
    file = Path(os.environ["GAR_DATA_HOME"]) / "tables" / f"{name}.csv.gz"
    with tempfile.TemporaryDirectory() as folder:
        return compared(name, file, Path(folder)) | limited(file, TABLES[name], Path(folder))


def compared(name: str, file: Path, folder: Path) -> dict[str, Any]:
    """Compare two losses without a limit, and check the report."""
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
    (problem,) = Results.read(folder / "full").problems
    method = next(one for one in problem.methods if one.name == problem.saved)
    return {
        "table": name,
        "rows": problem.rows,
        "seconds": round(seconds, 1),
        "seconds_over_estimate": round(seconds / (problem.estimated_seconds or np.nan), 2),
        "agrees": agrees(folder / "full"),
        "saved": method.title,
        **predicted(name, file, folder, method.loss, method.ensemble["mae"]),
    }


def agrees(report: Path) -> bool:
    """Return True if the page has the verdict and says what is saved, and if the verdict's best method has the best mean score."""
    results, page = Results.read(report), (report / "report.html").read_text()
    (problem,) = json.loads((report / "results.json").read_text())["problems"]
    everything = [*problem["methods"], *problem["references"]]
    best = min(everything, key=lambda method: float(np.mean(method["scores"]["mae"])))
    texts = (headline(results), saved_text(results.problems[0]))
    return best["title"] in texts[0] and all(escape(text, quote=False).replace("'", "&#39;") in page for text in texts)


def predicted(name: str, file: Path, folder: Path, loss: str, mae: float) -> dict[str, Any]:
    """Return the report's MAE over that of the command's predictions of the test rows, and over the estimator's own."""
    given = dict(zip((one.removeprefix("--") for one in TABLES[name][::2]), TABLES[name][1::2], strict=True))
    drop = [given.pop("drop")] if "drop" in given else []
    prepared = prepare(source_of_file(file, targets=["target"], drop=drop, **given), Options())
    source, test = prepared.source, prepared.test
    source.features.iloc[test].to_csv(folder / "test.csv", index=False)
    printed = subprocess.run(
        [sys.executable, "-m", "gar", "predict", "full", "test.csv"], cwd=folder, capture_output=True, text=True, check=True
    )
    labels, rest = source.labels[test, 0], np.setdiff1d(np.arange(len(source.labels)), test)
    folds = [(np.searchsorted(rest, train), np.searchsorted(rest, valid)) for train, valid, _ in prepared.parts]

    def error(cv: Any, seed: int) -> float:
        groups = None if source.groups is None or cv != "auto" else source.groups[rest]
        model = GARRegressorCV(loss, cv=cv, random_state=seed, n_jobs=-1)
        model.fit(source.features.iloc[rest], source.labels[rest, 0], groups=groups)
        return float(np.abs(model.predict(source.features.iloc[test]) - labels).mean())

    again = float(np.abs(pd.Series(printed.stdout.splitlines()[1:], dtype=float) - labels).mean())
    return {
        "over_predict": round(mae / again, 4),
        "over_estimator": round(mae / error(folds, Options().seed), 4),
        "over_estimator_with_own_folds": round(mae / error("auto", 0), 3),
    }


def limited(file: Path, options: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Compare with a short limit."""
    start = time.monotonic()
    command = [sys.executable, "-m", "gar", "compare", str(file), "-t", "target", *options, "--time-limit", str(_MINUTES)]
    subprocess.run([*command, "--out", "limited", "--quiet"], cwd=folder, capture_output=True, check=True)
    assert Results.read(folder / "limited").problems
    return {"seconds_over_limit": round((time.monotonic() - start) / (60 * _MINUTES), 2)}


def read() -> list[dict[str, Any]]:
    """Return the records of all tables that have one."""
    return [json.loads(path.read_text()) for name in TABLES if (path := RECORDS / f"{name}.json").exists()]


def table() -> str:
    """Return the records as a table in Markdown."""
    lines = ["| " + " | ".join(_HEADINGS.values()) + " |", "|---" * len(_HEADINGS) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(_cell(record[name]) for name in _HEADINGS) + " |" for record in read())])


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    """Run what is asked for and print the table."""
    wanted = [] if "--table" in sys.argv else [name for name in sys.argv[1:] if name in TABLES] or list(TABLES)
    RECORDS.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        path = RECORDS / f"{name}.json"
        if not path.exists():
            write_whole(path, json.dumps(run(name), indent=1).encode() + b"\n")
            print(path.read_text(), flush=True)
    write_tables(PAGE, {"promises": table()})
    print(table())


if __name__ == "__main__":
    main()
