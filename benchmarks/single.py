"""``GARRegressor()`` as it comes against ridge regression on small tables: ``GAR_DATA_HOME=... python -m benchmarks.single``.

Five shuffled folds; the estimator gets the frame as it is, ridge the same features, standardised, with its penalty chosen by
leave-one-out errors. Prints the mean R2 of the folds, and writes it to a record; ``--table`` prints from the record alone.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.against.tables import frame_of
from gar import GARRegressor
from gar.encoding import Encoder
from gar.files import write_whole

RECORD = Path(__file__).parent / "records" / "single.json"
TABLES = ("yacht", "hitters", "autompg", "boston", "energy", "college", "diabetes", "wage")


def table_of(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    if name == "diabetes":
        return load_diabetes(return_X_y=True, as_frame=True)
    frame = frame_of(name)
    return frame.drop(columns="target"), frame["target"].to_numpy(np.float64)


def ridge(x: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    encoder = Encoder.infer(x)
    codes = encoder.codes(x)
    fitted, features = encoder.fit_encode(codes, y[:, None], np.ones(len(y)))
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))).fit(features, y)
    return np.asarray(model.predict(fitted.transform(new)))


def scores(name: str) -> dict[str, Any]:
    x, y = table_of(name)
    y = np.asarray(y, dtype=np.float64)
    found: dict[str, list[float]] = {"gar": [], "ridge": []}
    for train, test in KFold(5, shuffle=True, random_state=0).split(x):
        predictions = {
            "gar": GARRegressor(random_state=0).fit(x.iloc[train], y[train]).predict(x.iloc[test]),
            "ridge": ridge(x.iloc[train], y[train], x.iloc[test]),
        }
        for method, pred in predictions.items():
            found[method].append(float(r2_score(y[test], pred)))
    return {"table": name, "rows": len(x), **{method: float(np.mean(values)) for method, values in found.items()}}


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| table | rows | `GARRegressor()` | ridge |", "|---|---|---|---|"]
    for row in rows:
        ours, theirs = (f"**{row[own]:.3f}**" if row[own] > row[other] else f"{row[own]:.3f}" for own, other in PAIRS)
        lines.append(f"| {row['table']} | {row['rows']} | {ours} | {theirs} |")
    return "\n".join(lines)


PAIRS = (("gar", "ridge"), ("ridge", "gar"))


def read_record() -> list[dict[str, Any]]:
    return json.loads(RECORD.read_text())


def main() -> None:
    if sys.argv[1:] != ["--table"]:
        write_whole(RECORD, json.dumps(Parallel(2)(delayed(scores)(name) for name in TABLES), indent=1).encode() + b"\n")
    print(table(read_record()))


if __name__ == "__main__":
    main()
