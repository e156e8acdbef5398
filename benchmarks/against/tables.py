"""The tables of the comparison, and one split of each: training rows in five folds, and test rows that are looked at once.

A third of the tables is held back: nothing is tuned on them. Which ones was drawn by the hash of their names, before anything was
tried.
"""

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

NAMES = (
    *("yacht", "hitters", "autompg", "boston", "energy", "college", "ames_housing", "wage", "sml", "wind", "cpu_act", "kin8nm"),
    *("seoul_bike", "power-plant", "naval-propulsion-plant", "pol", "elevators", "bike_sharing_hour", "california_housing"),
    *("king_county_house_sales", "house_16H", "cps88_wages", "nlswork_wages", "kin40k", "metro_traffic", "keggdirected"),
    *("BNG_pwLinear", "nycflights_air_time", "birthdays_us", "beijing_air_pm25", "mpsa_splicing"),
)
BY_HASH = sorted(NAMES, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
HELD_OUT, DEVELOPMENT = tuple(BY_HASH[:12]), tuple(BY_HASH[12:])

TRAIN_ROWS, TEST_ROWS, FOLDS = 2400, 5000, 5


class Table(NamedTuple):
    """Features and labels of a table, the rows of its five folds ``(train, valid)``, and its test rows."""

    x: pd.DataFrame
    y: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    test: np.ndarray


@cache
def frame_of(name: str) -> pd.DataFrame:
    """Return a table as it is in the data folder."""
    return pd.read_csv(Path(os.environ["GAR_DATA_HOME"]) / "tables" / f"{name}.csv.gz", low_memory=False)


def table_of(name: str, train_rows: int = TRAIN_ROWS) -> Table:
    """Return a table with its split: at most ``train_rows`` of four fifths of it for training, other rows for the test."""
    frame = frame_of(name)
    order = np.random.default_rng([2025, len(name), sum(name.encode())]).permutation(len(frame))
    count = min(train_rows, 4 * len(frame) // 5)
    rows = order[: count + TEST_ROWS]
    folds = [(train, valid) for train, valid in KFold(FOLDS).split(np.arange(count))]
    sample = frame.iloc[rows].reset_index(drop=True)
    y = sample.pop("target").to_numpy(np.float64)
    return Table(sample, y, folds, np.arange(count, len(rows)))


def with_date_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns of dates are numbers that any method can read: days since 1970, month, weekday and hour."""
    parts = {}
    for name in frame.columns:
        dates = _as_dates(frame[name])
        if dates is None:
            parts[name] = frame[name]
            continue
        parts[f"{name} day"] = (dates - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        parts |= {f"{name} {part}": getattr(dates.dt, part) for part in ("month", "dayofweek", "hour")}
    return pd.DataFrame(parts)


def _as_dates(column: pd.Series) -> pd.Series | None:
    if pd.api.types.is_numeric_dtype(column) or not column.dropna().astype(str).str.match(r"\d{1,4}[-/]\d{1,2}[-/]\d{1,4}").all():
        return None
    return pd.to_datetime(column, dayfirst="/" in str(column.dropna().iloc[0]), format="mixed")
