"""Columns of categories: an indicator for each of a few, or for thousands of them what their labels and numbers of rows say."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from gar.encoding.cells import Cells, canonical
from gar.errors import InputError

PARTS = 5
"""Parts into which training rows are cut for target encoding; each is encoded by the labels of the others."""


@dataclass(frozen=True, kw_only=True)
class KnownCategories:
    """What columns of categories share: the categories that are known, as text."""

    name: str
    known: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.known)) < len(self.known):
            raise InputError(f"column {self.name!r} has a category twice; expected different ones")

    def codes(self, cells: Cells) -> np.ndarray:
        """Return the index of each cell's category among the known ones, -1 for another one, NaN for a missing one."""
        text = cells.as_text()
        exact = {word: index for index, word in enumerate(self.known)}
        similar = {canonical(word): index for index, word in reversed(list(enumerate(self.known)))}
        return text.of_words([exact.get(word, similar.get(canonical(word), -1)) for word in text.words or ()])

    def unknown(self, cells: Cells) -> list[str]:
        """Return the words of all cells whose category is not known."""
        text = cells.as_text()
        return [(text.words or ())[text.values[row]] for row in np.flatnonzero(self.codes(cells) < 0)]


@dataclass(frozen=True, kw_only=True)
class CategoricalColumn(KnownCategories):
    """A column of few categories, one-hot encoded: one indicator per known category; another category gives zeros only.

    With ``missing``, there is an indicator of missing values.
    """

    kind: Literal["category"] = "category"
    missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        return [*(f"{self.name}={value}" for value in self.known), *([f"{self.name} is missing"] if self.missing else [])]

    def depends_on_rows(self, codes: np.ndarray) -> bool:
        """Return False: indicators do not depend on rows."""
        return False

    def fit(self, codes: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Self:
        """Return the column: there is nothing to fit."""
        return self

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Return the features ``(rows, features)`` of codes."""
        indicators = codes[:, None] == np.arange(len(self.known))
        return np.column_stack([indicators, np.isnan(codes)] if self.missing else [indicators]).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class TargetColumn(KnownCategories):
    """A column of many categories, target encoded: the mean label of each category, shrunk, and how frequent it is.

    Means are shrunk towards the mean of all rows, the more the fewer rows a category has and the less categories differ beyond
    chance. Missing values are a category of their own; a category without training rows has the mean of all rows.

    Args:
        means: for each target, that of every known category, of all others and of missing values.
        shares: rows of these, as multiples of the average over the known categories.
    """

    kind: Literal["target"] = "target"
    means: tuple[tuple[float, ...], ...] = ()
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(len(row) != len(self.known) + 2 for row in (*self.means, *([self.shares] if self.means else []))):
            raise InputError(f"column {self.name!r} needs a mean and a share for each category, for others and for missing values")

    @property
    def feature_names(self) -> list[str]:
        several = len(self.means) > 1
        means = [f"{self.name} mean" + (f" of target {index}" if several else "") for index in range(len(self.means))]
        return [*means, f"{self.name} frequency"]

    def depends_on_rows(self, codes: np.ndarray) -> bool:
        """Return True: means are those of the training rows."""
        return True

    def fit(self, codes: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Self:
        """Return a copy with the means and shares of these rows; a weight of two counts as two rows."""
        index, size = self._index(codes), len(self.known) + 2
        means = tuple(tuple(_shrunk_means(index, labels, weight, size).tolist()) for labels in y.T)
        total = np.bincount(index, weight, size)
        return replace(self, means=means, shares=tuple((total * len(self.known) / max(total.sum(), 1e-300)).tolist()))

    def fit_encode(self, codes: np.ndarray, y: np.ndarray, weight: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return the features of training rows: those of each part are encoded by the labels of the others."""
        features = np.empty((len(codes), y.shape[1] + 1))
        for number in range(PARTS):
            inside, others = part == number, part != number
            features[inside] = self.fit(codes[others], y[others], weight[others]).encode(codes[inside])
        return features

    def encode(self, codes: np.ndarray) -> np.ndarray:
        """Return the features ``(rows, features)`` of codes."""
        index = self._index(codes)
        return np.column_stack([*(np.array(row)[index] for row in self.means), np.log1p(np.array(self.shares)[index])])

    def _index(self, codes: np.ndarray) -> np.ndarray:
        """Return the index of codes among means: after the known categories come others, and missing values."""
        count = len(self.known)
        return np.where(np.isnan(codes), count + 1, np.where(codes < 0, count, codes)).astype(np.int64)


def _shrunk_means(index: np.ndarray, labels: np.ndarray, weight: np.ndarray, size: int) -> np.ndarray:
    """Return the mean label of each of ``size`` categories, shrunk towards the mean of all.

    ``(n mean + m overall) / (n + m)``, where m is the variance within categories over that between them: the best linear
    prediction of a category's true mean, with both variances estimated by one-way analysis of variance.
    """
    counted = ~np.isnan(labels) & (weight > 0)
    if not counted.any():
        return np.zeros(size)
    index, labels = index[counted], labels[counted]
    weight = weight[counted] / min(1.0, weight[counted].mean())  # weights of less than a row are shares
    overall = np.average(labels, weights=weight)
    centred, rows = labels - overall, np.bincount(index, weight, size)
    sums = np.bincount(index, weight * centred, size)
    means = sums / np.where(rows > 0, rows, 1.0)
    within, between = _variances(centred, weight, rows, means, index)
    if between <= 0:
        return np.full(size, overall)
    return np.asarray(overall + sums / np.where(rows > 0, rows + within / between, 1.0))


def _variances(
    centred: np.ndarray, weight: np.ndarray, rows: np.ndarray, means: np.ndarray, index: np.ndarray
) -> tuple[float, float]:
    """Return the variances within and between categories; that between is negative or 0 where they differ by chance alone."""
    total, categories = rows.sum(), np.count_nonzero(rows)
    if total <= categories or categories < 2:
        return 0.0, 0.0
    within = (weight * (centred - means[index]) ** 2).sum() / (total - categories)
    between = ((rows * means**2).sum() - (categories - 1) * within) / (total - (rows**2).sum() / total)
    return float(within), float(between)
