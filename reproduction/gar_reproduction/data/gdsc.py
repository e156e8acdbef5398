"""Drug responses of cell lines: which drugs and lines are kept, and how features are encoded (the paper's appendix)."""

import re
from typing import TYPE_CHECKING

from gar.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_DRUG = re.compile(r"(.+)_IC_50(\.\d+)?")
_LINE, _NUMBER = "cell line", "cosmic_id"


def drugs_and_features(
    frame: "pd.DataFrame", *, most_complete: int | None = None, max_missing: float = 1.0
) -> tuple["pd.DataFrame", "pd.DataFrame"]:
    """Return one-hot features and drug responses ``ln IC50`` of the lines that have a value for every drug that is kept.

    Args:
        frame: columns named ``..._IC_50`` are drugs, the line's name and COSMIC number are left out, all others are categories.
        most_complete: keep this many drugs, those with the fewest gaps; equal ones in the order of the table.
        max_missing: keep drugs with at most this share of gaps.
    """
    import pandas as pd

    frame = _only_lines(frame)
    drugs = [column for column in frame.columns if _DRUG.fullmatch(column)]
    responses = frame[drugs].apply(pd.to_numeric, errors="coerce")
    gaps = responses.isna().mean().sort_values(kind="stable")
    kept = gaps[gaps <= max_missing].index[:most_complete]
    if len(kept) == 0:
        raise InputError(f"no drug has at most {max_missing:.0%} gaps; expected columns named like 'Erlotinib_IC_50'")
    complete = responses[list(kept)].dropna()
    other = [column for column in frame.columns if not _is_drug_or_name(column, drugs)]
    categories = frame.loc[complete.index, other].astype(str)
    return pd.get_dummies(categories).astype(float), complete.rename(columns=lambda name: name.replace("_IC_50", ""))


def _only_lines(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Drop rows that describe columns, as in GDSC's own files: only cell lines have a number in COSMIC."""
    import pandas as pd

    number = next((column for column in frame.columns if column.lower() == _NUMBER), None)
    return frame if number is None else frame[pd.to_numeric(frame[number], errors="coerce").notna()]


def _is_drug_or_name(column: str, drugs: list[str]) -> bool:
    """Return True for a drug's response, another measure of it (``Erlotinib_AUC``), or a name of the line."""
    stems = {match[1] for match in map(_DRUG.fullmatch, drugs) if match}
    return column.lower() in (_LINE, _NUMBER) or column in drugs or column.rpartition("_")[0] in stems
