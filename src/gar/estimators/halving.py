"""Successive halving: candidates, and rungs in which they were trained on some folds for some epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.metrics import Evaluator
from gar.registry import METRICS
from gar.stack import History, Models, StackData, StackedMLP

Stack = tuple[str | None, int | None]
"""Encoding and batch size, which networks trained as one stack have in common."""

Tables = Mapping[str | None, StackData]
"""The table in each encoding to try."""

_GREEDY_STEPS = 8
"""Networks of a fold that may be chosen for the ensemble, one of them more than once perhaps."""


class Candidate(NamedTuple):
    """One combination of hyperparameters; a batch size of None follows from the number of rows."""

    encoding: str | None
    batch_size: int | None
    learning_rate: float
    weight_decay: float
    parameter: float | None

    @property
    def stack(self) -> Stack:
        return self.encoding, self.batch_size

    def params(self, parameter: str | None, batch_size: int) -> dict[str, Any]:
        """Return the combination by name, given the name of the parameter of the loss and the batch size that follows from rows."""
        shared = dict(zip(self._fields[:-1], self, strict=False)) | {"batch_size": self.batch_size or batch_size}
        return shared if parameter is None or self.parameter is None else {**shared, parameter: self.parameter}


@dataclass(frozen=True)
class Rung:
    """A step of successive halving: candidates that were trained on some folds for some epochs.

    ``scores`` are validation scores ``(all folds, candidates)``, larger being better: ``-inf`` for a candidate that failed, NaN on
    folds where it was not tried. ``runs`` has for every stack its models, fold after fold, and their history. ``seconds_per_row``
    is the time of a network for a row and an epoch.
    """

    candidates: list[Candidate]
    folds: Sequence[int]
    epochs: int
    scores: np.ndarray
    runs: Mapping[Stack, tuple[Models, History]]
    seconds_per_row: float

    def best(self, count: int) -> list[Candidate]:
        """Return the candidates with the highest mean score over the folds tried, in the order of the grid."""
        means = np.nanmean(self.scores, 0)
        return [self.candidates[index] for index in sorted(np.argsort(-means, kind="stable")[:count])]

    def best_of_each_encoding(self, count: int) -> list[Candidate]:
        """Return the best candidates, the same number of each encoding; with a single one, the best of all."""
        encodings = list(dict.fromkeys(candidate.encoding for candidate in self.candidates))
        if count < len(encodings):
            return self.best(count)
        return [one for encoding in encodings for one in self._of_encoding(encoding).best(-(-count // len(encodings)))]

    def _of_encoding(self, encoding: str | None) -> "Rung":
        indices = [index for index, candidate in enumerate(self.candidates) if candidate.encoding == encoding]
        return replace(self, candidates=[self.candidates[index] for index in indices], scores=self.scores[:, indices])

    def with_scores_of(self, earlier: "Rung") -> "Rung":
        """Return this rung with scores on the folds where an earlier rung tried its candidates, too."""
        indices = [earlier.candidates.index(candidate) for candidate in self.candidates]
        return replace(self, scores=np.where(np.isnan(self.scores), earlier.scores[:, indices], self.scores))

    def best_epochs(self, candidate: Candidate) -> np.ndarray:
        """Return the best epoch of a candidate on every fold of the rung, from 0."""
        found = [self._model(fold, candidate) for fold in self.folds]
        return np.array([history.best_epoch[model] for history, model in found])

    def network(self, fold: int, candidate: Candidate) -> StackedMLP:
        """Return the network of a candidate on a fold, with the weights of its best epoch."""
        history, model = self._model(fold, candidate)
        return history.best.take([model])

    def _model(self, fold: int, candidate: Candidate) -> tuple[History, int]:
        """Return the history that a candidate's network of a fold is in, and its index there."""
        members = [other for other in self.candidates if other.stack == candidate.stack]
        return self.runs[candidate.stack][1], list(self.folds).index(fold) * len(members) + members.index(candidate)


def greedy_choice(predictions: Tensor, target: Tensor, weight: Tensor | None, metric: str) -> list[int]:
    """Return which networks to average, by their scores on validation rows (Caruana et al. 2004).

    Beginning with none, the network is added that makes the score of the mean best, again and again; a network may be added more
    than once. The best of these means is returned.

    Args:
        predictions: of the validation rows, ``(networks, rows, targets)``.
        target: their labels ``(rows, targets)``, NaN where one is missing.
        weight: how often each row counts, or None.
        metric: the metric to improve.
    """
    evaluate, spec = Evaluator(target, weight=weight), METRICS[metric]
    total, chosen = torch.zeros_like(predictions[0]), list[int]()
    best, best_score = list[int](), -np.inf
    for step in range(1, _GREEDY_STEPS + 1):
        scores = (spec.sign * evaluate((total + predictions) / step)[:, spec.index]).nan_to_num(nan=-np.inf, neginf=-np.inf)
        chosen.append(int(scores.argmax()))
        total = total + predictions[chosen[-1]]
        if scores[chosen[-1]] > best_score or not best:
            best, best_score = list(chosen), float(scores[chosen[-1]])
    return best
