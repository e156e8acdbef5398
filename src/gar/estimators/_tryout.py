"""Combinations of a grid on all folds: trained as one program, and scored on the rows left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from gar.metrics import LARGER_IS_BETTER
from gar.stack import History, Layout, Models, StackData


class Candidate(NamedTuple):
    """One combination."""

    batch_size: int
    learning_rate: float
    weight_decay: float
    parameter: float | None

    def params(self, name: str | None) -> dict[str, float]:
        """By name; ``name`` is that of the parameter of the loss."""
        common = {"batch_size": self.batch_size, "learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return common if name is None or self.parameter is None else {**common, name: self.parameter}


@dataclass(frozen=True)
class Tryout:
    """What was trained on, with features encoded in one way, for how long; candidates, their scores ``(folds, candidates)``, larger
    being better and ``-inf`` for those that failed; and for every batch size the models and what was measured of them, fold
    after fold."""

    data: StackData
    encoding: str | None
    epochs: int
    candidates: list[Candidate]
    scores: np.ndarray
    runs: dict[int, tuple[Models, History]]

    @property
    def means(self) -> np.ndarray:
        """Over the folds."""
        return np.asarray(self.scores.mean(0))

    @property
    def layout(self) -> Layout:
        return next(iter(self.runs.values()))[1].layout

    def shortlist(self, count: int) -> list[Candidate]:
        """The best over all folds, in the order of the grid."""
        return [self.candidates[place] for place in sorted(np.argsort(-self.means, kind="stable")[:count])]

    def best_weights(self, fold: int, place: int) -> Tensor:
        """Of a candidate's network of a fold, at its best epoch."""
        candidate = self.candidates[place]
        peers = [other for other in self.candidates if other.batch_size == candidate.batch_size]
        return self.runs[candidate.batch_size][1].best.table[fold * len(peers) + peers.index(candidate)]


def try_out(
    data: StackData,
    candidates: Sequence[Candidate],
    *,
    encoding: str | None,
    epochs: int,
    seed: int,
    scoring: str,
    train: Callable[[Models, int], History],
) -> Tryout:
    """Train every candidate on every fold; ``train`` takes models and their batch size."""
    folds = len(data.folds)
    scores = np.empty((folds, len(candidates)))
    runs = {}
    for size in dict.fromkeys(candidate.batch_size for candidate in candidates):
        places = [place for place, candidate in enumerate(candidates) if candidate.batch_size == size]
        models = _on_all_folds([candidates[place] for place in places], folds, seed)
        history = train(models, size)
        scores[:, places] = _scores(history, scoring).reshape(folds, -1)
        runs[size] = (models, history)
    return Tryout(data, encoding, epochs, list(candidates), scores, runs)


def _on_all_folds(candidates: list[Candidate], folds: int, seed: int) -> Models:
    _, rates, decays, parameters = zip(*candidates, strict=True)
    return Models(
        fold=np.repeat(np.arange(folds), len(candidates)),
        seed=seed,
        learning_rate=np.tile(rates, folds),
        weight_decay=np.tile(decays, folds),
        parameter=None if parameters[0] is None else np.tile(parameters, folds),
    )


def _scores(history: History, scoring: str) -> np.ndarray:
    """The best epoch's score of every model."""
    values = history.of("valid", scoring) * (1.0 if LARGER_IS_BETTER[scoring] else -1.0)
    return np.asarray(np.where(np.isnan(values), -np.inf, values).max(1))
