"""The paper's data sets for ``gar compare``: what the entry point ``gar.data_sets`` provides."""

from typing import TYPE_CHECKING

from gar.errors import InputError
from gar_reproduction.data.catalog import describe, names as catalog_names

if TYPE_CHECKING:
    from gar.app.compare import Source

_ELSEWHERE = ("agedb", "diabetes", "sine", "squared-sine")
"""Images, and data sets that a comparison has without this package."""


def names() -> list[str]:
    """Return the names of the paper's tables."""
    return [name for name in catalog_names() if name not in _ELSEWHERE]


def source(name: str, *, group: str | None = None) -> "Source":
    """Return a table of the paper to compare on; ``group`` names its groups, such as Parkinson's ``"subject"``."""
    import pandas as pd

    from gar.app.compare import Source
    from gar_reproduction.data.loading import load

    known = describe(name).groups
    if group is not None and group != known:
        raise InputError(f"group={group!r} is not known; {name} has {f'only the group {known!r}' if known else 'no groups'}")
    table = load(name)
    return Source(
        name=table.name,
        title=table.title,
        source=table.source,
        features=pd.DataFrame(table.x, columns=list(table.feature_names)),
        labels=table.y,
        targets=table.target_names,
        groups=None if group is None or table.groups is None else pd.factorize(table.groups)[0],
        notes=table.notes,
    )
