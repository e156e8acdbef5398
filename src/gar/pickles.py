"""Pickles of estimators that carry the version which wrote them, in the manner of scikit-learn's own estimators."""

import warnings
from typing import Any

from gar import __version__


class VersionWarning(UserWarning):
    """An estimator was written by another version of gar, and may not work or predict as it did there."""


class VersionedPickle:
    """Mixin of estimators: their pickles name the version of gar, and another version warns when it reads them."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_gar_version": __version__}  # type: ignore[dict-item]

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        written = state.pop("_gar_version", "unknown")
        if written != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by gar of version {written}, and {__version__} reads it: it may fail or "
                "predict something else. Fit it again, or install the version that wrote it",
                VersionWarning,
                stacklevel=2,
            )
        super().__setstate__(state)  # type: ignore[misc]
