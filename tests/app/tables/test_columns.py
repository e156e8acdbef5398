"""Labels of a table: numbers, with gaps."""

import numpy as np
import pandas as pd
import pytest

from gar.app.tables import target_values
from gar.errors import InputError


def test_labels_with_gaps() -> None:
    frame = pd.DataFrame({"a": [1, None, 3], "b": ["4", "", "6"], "c": ["x", "y", "z"], "d": [None] * 3, "e": [1, np.inf, 2]})
    np.testing.assert_array_equal(target_values(frame, ["a", "b"]), [[1, 4], [np.nan, np.nan], [3, 6]])
    for targets, message in [
        (["c"], "target 'c' holds 'x' in row 1; expected numbers"),
        (["d"], "target 'd' has no value in any row"),
        (["e"], "target 'e' holds 'inf' in row 2"),
        (["A"], "no column 'A'; it has 'a', 'b'"),
        ([], "expected a list of different column names"),
        (["a", "a"], "expected a list of different column names"),
    ]:
        with pytest.raises(InputError, match=message):
            target_values(frame, targets)
