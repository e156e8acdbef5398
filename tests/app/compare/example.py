"""Small real tables for comparisons, and a quick way to compare."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from gar.app.compare import Compared, Options, compare_table, source_of_frame
from gar.search import RunContext
from gar.search.context import ALONE

QUICK = Options(
    losses=("mae", "gar", "rnc"), epochs=6, learning_rates=(2e-2, 3e-3), weight_decays=(1e-3,), hidden_sizes=(16, 8), batch_size=64
)


@cache
def diabetes() -> pd.DataFrame:
    """The table as a user would have it: sex as a word, a few values missing, a second target with gaps."""
    frame: pd.DataFrame = load_diabetes(as_frame=True, scaled=False).frame
    frame = frame.assign(sex=frame["sex"].map({1.0: "woman", 2.0: "man"}), clinic=np.arange(len(frame)) // 10)
    frame.loc[::17, "bmi"] = np.nan
    frame["double"] = (2 * frame["target"] + frame["s5"]).where(np.arange(len(frame)) % 5 > 0)
    return frame


def compared(options: Options = QUICK, *, context: RunContext = ALONE, **columns: object) -> Compared:
    chosen = {"targets": ["target"], "drop": ["clinic", "double"], **columns}
    return compare_table(source_of_frame(diabetes(), **chosen), options, context)  # type: ignore[arg-type]
