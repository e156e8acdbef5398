"""What the package asks of a tree library: one adapter class each, named in :data:`gar.registry.FAMILIES`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from gar.boosting.objective import GARObjective
from gar.errors import InputError, how_to_install
from gar.registry import FAMILIES, NETWORKS
from gar.validation import check_choice

Objective = Callable[..., tuple[np.ndarray, np.ndarray]]
"""Returns gradient and curvature; libraries call it with predictions and their own data set."""

LEAF_ROWS = 20
"""Rows that a leaf needs in a comparison: LightGBM's own default."""
_LEAVES = 4
"""A leaf never needs more than the training rows divided by this number, so that small tables can be split too."""

MAX_DEPTH = 256
"""Depth of the deepest tree that is loaded; libraries walk some trees by recursion."""


class LabelledRows(NamedTuple):
    """Features ``(rows, columns)``, labels ``(rows,)`` or ``(rows, targets)``, and weights ``(rows,)`` or None."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None

    def take(self, indices: np.ndarray) -> "LabelledRows":
        """Return the rows at these indices."""
        return LabelledRows(self.x[indices], self.y[indices], None if self.weight is None else self.weight[indices])


class TrainingTask(NamedTuple):
    """Rows and custom objective of a training, rows and metric of early stopping, and the constant that training starts from."""

    rows: LabelledRows
    valid: LabelledRows | None
    objective: Objective
    metric: Callable[..., Any]
    start: Any = 0.0


class Round(NamedTuple):
    """A round of training: predictions of all rounds so far for each of the other tables, and the library's own model."""

    predictions: list[np.ndarray]
    booster: Any


@dataclass(frozen=True, kw_only=True)
class TreeSettings:
    """Hyperparameters that every library has."""

    max_depth: int
    learning_rate: float
    seed: int
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class StoppingSettings(TreeSettings):
    """Hyperparameters of a training that may stop early; ``options`` are the library's own parameters."""

    rounds: int
    min_child_weight: float
    patience: int | None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RoundSettings(TreeSettings):
    """Hyperparameters of a training round by round: the loss, GAR's alpha or Huber's delta, the share of rows of each tree."""

    loss: str
    parameter: float = 1.0
    subsample: float

    @property
    def objective(self) -> GARObjective | None:
        """Return GAR as a custom objective; None for losses that are the library's own."""
        return GARObjective(alpha=self.parameter) if self.loss == "gar" else None


class TreeLibrary(ABC):
    """A tree library: subclass it, and name the subclass with :func:`gar.registry.register_family`.

    Attributes:
        name: as in :data:`gar.registry.FAMILIES`.
        package: what is imported.
        requirement: what pip installs; empty if the extra ``boosting`` brings it.
        error: the exception that the library raises where it refuses, below its package.
        multi_output: whether it trains several targets together.
    """

    name: str
    package: str
    requirement = ""
    error: str
    multi_output = False

    @property
    def module(self) -> Any:
        """Return the library's module, imported on first use."""
        try:
            return import_module(self.package)
        except ImportError as error:
            how = f"use pip install '{self.requirement}'" if self.requirement else how_to_install("boosting")
            raise InputError(f"{self.package} is not installed; {how}") from error

    @property
    def version(self) -> str:
        """Return the version of the library."""
        return str(self.module.__version__)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise the library's exceptions as :class:`InputError`: the first line, without the position in its source code."""
        try:
            yield
        except attrgetter(self.error)(self.module) as error:
            reason = str(error).strip().partition("\n")[0].partition(" at /")[0]
            raise InputError(f"{self.name} cannot train these trees: {reason}") from error

    @abstractmethod
    def train_rounds(self, settings: RoundSettings, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Iterator[Round]:
        """Train and yield one round after another, without end: the caller decides when to stop.

        Args:
            settings: the hyperparameters.
            x: features ``(rows, columns)``.
            y: labels ``(rows,)`` around 0, from which training starts, with a standard deviation of about 1.
            others: features of other rows, to predict after every round.
        """

    @abstractmethod
    def to_text(self, booster: Any) -> str:
        """Return a model in the library's own text format."""

    @abstractmethod
    def from_text(self, text: str, features: int) -> Any:
        """Return the model of such a text; raise ValueError if it is none, or has another number of features.

        Libraries trust their files: trees that are none can crash or hang the process. So everything is checked before.
        """

    @staticmethod
    def check_features(count: int, expected: int) -> None:
        """Raise ValueError unless trees have as many features as the encoded table."""
        if count != expected:
            raise ValueError(f"trees for {count} features, but the table is encoded as {expected}")

    @abstractmethod
    def predict(self, booster: Any, x: np.ndarray, rounds: int | None = None) -> np.ndarray:
        """Return predictions of the first ``rounds`` rounds; None takes all, in one thread."""

    def train(self, task: TrainingTask, settings: StoppingSettings) -> tuple[Any, int, Any]:
        """Train with a custom objective, with validation rows until the metric stops improving.

        Return the model, how many of its rounds to use, and what to add to its predictions: the start, unless it stores that.
        """
        raise InputError(f"library={self.name!r} cannot be trained with a custom objective; use 'xgboost' or 'lightgbm'")

    def metric_result(self, name: str, value: float, *, larger_is_better: bool, from_sklearn: bool) -> Any:
        """Return a metric in the form that early stopping expects, in ``train`` or in the scikit-learn interface."""
        return name, value, larger_is_better


def tree_library(name: str) -> TreeLibrary:
    """Return the adapter of a library by its name."""
    check_choice(name, tuple(family for family in FAMILIES if family != NETWORKS), "library")
    library: TreeLibrary = FAMILIES[name].implementation()
    return library


def check_trees(nodes: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Return the parent of every node, counted over all trees; raise ValueError unless these splits make trees.

    Args:
        nodes: number of nodes of each tree, leaves included. The root comes first, and children after their parent.
        splits: indices ``(4, splits)`` of a tree, of a node in it, and of the node's left and right child.

    Example:
        >>> check_trees(np.array([3, 1]), np.array([[0], [0], [1], [2]])).tolist()
        [0, 0, 0, 3]
        >>> check_trees(np.array([3]), np.array([[0, 0], [0, 1], [1, 2], [2, 1]]))
        Traceback (most recent call last):
        ValueError: node 1 of tree 0 has the children 2 and 1, which cannot be
    """
    tree, node, left, right = splits
    wrong = (np.minimum(left, right) <= node) | (np.maximum(left, right) >= nodes[tree])
    if wrong.any():
        first = splits[:, wrong.argmax()]
        raise ValueError("node {1} of tree {0} has the children {2} and {3}, which cannot be".format(*first))
    starts = np.cumsum(nodes) - nodes
    parent, is_root = np.arange(nodes.sum()), np.zeros(nodes.sum(), dtype=bool)
    is_root[starts] = True
    children = np.concatenate([starts[tree] + left, starts[tree] + right])
    if not np.array_equal(np.sort(children), np.flatnonzero(~is_root)):
        raise ValueError("a node of a tree has two parents or none")
    parent[children] = np.tile(starts[tree] + node, 2)
    above, depth = parent, 0
    while not is_root[above].all():
        above, depth = parent[above], depth + 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a tree is deeper than {MAX_DEPTH}")
    return parent


def leaf_rows(rows: int) -> int:
    """Return how many rows a leaf needs when a comparison trains on ``rows`` rows.

    Example:
        >>> [leaf_rows(rows) for rows in (1000, 80, 40, 3)]
        [20, 20, 10, 1]
    """
    return min(LEAF_ROWS, max(1, rows // _LEAVES))
