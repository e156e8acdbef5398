"""Combinations of a grid on some folds: trained as one program, and scored on the rows left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from gar.metrics import LARGER_IS_BETTER
from gar.stack import History, Layout, Models


class Recipe(NamedTuple):
    """What networks that are trained together have in common."""

    encoding: str | None
    batch_size: int


class Candidate(NamedTuple):
    """One combination."""

    recipe: Recipe
    learning_rate: float
    weight_decay: float
    parameter: float | None

    def params(self, name: str | None) -> dict[str, object]:
        """By name; ``name`` is that of the parameter of the loss."""
        common = {**self.recipe._asdict(), "learning_rate": self.learning_rate, "weight_decay": self.weight_decay}
        return common if name is None or self.parameter is None else {**common, name: self.parameter}


Runs = Mapping[Recipe, tuple[Models, History]]


@dataclass(frozen=True)
class Tryout:
    """Candidates that were trained on these folds for so many epochs; their scores ``(all folds, candidates)``, larger being
    better, ``-inf`` for those that failed and NaN on folds that were not tried; and for every recipe the models and what was
    measured of them, fold after fold."""

    candidates: list[Candidate]
    folds: Sequence[int]
    epochs: int
    scores: np.ndarray
    runs: Runs

    @property
    def layout(self) -> Layout:
        return next(iter(self.runs.values()))[1].layout

    @property
    def means(self) -> np.ndarray:
        """Over the folds that were tried."""
        return np.asarray(self.scores[self.folds].mean(0))

    def best(self, count: int) -> list[Candidate]:
        """So many, in the order of the grid."""
        return [self.candidates[place] for place in sorted(np.argsort(-self.means, kind="stable")[:count])]

    def of_best_encoding(self) -> "Tryout":
        """What has the same encoding as the very best."""
        best = self.best(1)[0].recipe.encoding
        places = [place for place, candidate in enumerate(self.candidates) if candidate.recipe.encoding == best]
        runs = {recipe: run for recipe, run in self.runs.items() if recipe.encoding == best}
        return replace(self, candidates=[self.candidates[place] for place in places], scores=self.scores[:, places], runs=runs)

    def joined(self, later: "Tryout") -> "Tryout":
        """A later tryout, of some of these candidates on other folds, with the scores of both."""
        places = [self.candidates.index(candidate) for candidate in later.candidates]
        scores = np.where(np.isnan(later.scores), self.scores[:, places], later.scores)
        return replace(later, folds=sorted({*self.folds, *later.folds}), scores=scores)

    def best_weights(self, fold: int, place: int) -> Tensor:
        """Of a candidate's network of a fold, at its best epoch."""
        candidate = self.candidates[place]
        peers = [other for other in self.candidates if other.recipe == candidate.recipe]
        models_before = list(self.folds).index(fold) * len(peers)
        return self.runs[candidate.recipe][1].best.weights[models_before + peers.index(candidate)]


def try_out(
    candidates: list[Candidate],
    *,
    folds: Sequence[int],
    of_folds: int,
    epochs: int,
    seed: int,
    scoring: str,
    train: Callable[[Models, Recipe, int], History],
) -> Tryout:
    """Train every candidate on these folds; ``train`` takes models, what they have in common, and the number of epochs."""
    scores = np.full((of_folds, len(candidates)), np.nan)
    runs = {}
    for recipe in dict.fromkeys(candidate.recipe for candidate in candidates):
        places = [place for place, candidate in enumerate(candidates) if candidate.recipe == recipe]
        models = _on_folds([candidates[place] for place in places], folds, seed)
        history = train(models, recipe, epochs)
        scores[np.ix_(folds, places)] = _scores(history, scoring).reshape(len(folds), -1)
        runs[recipe] = (models, history)
    return Tryout(candidates, folds, epochs, scores, runs)


def _on_folds(candidates: list[Candidate], folds: Sequence[int], seed: int) -> Models:
    _, rates, decays, parameters = zip(*candidates, strict=True)
    return Models(
        fold=np.repeat(folds, len(candidates)),
        seed=seed,
        learning_rate=np.tile(rates, len(folds)),
        weight_decay=np.tile(decays, len(folds)),
        parameter=None if parameters[0] is None else np.tile(parameters, len(folds)),
    )


def _scores(history: History, scoring: str) -> np.ndarray:
    """The best epoch's score of every model."""
    values = history.of("valid", scoring) * (1.0 if LARGER_IS_BETTER[scoring] else -1.0)
    return np.asarray(np.where(np.isnan(values), -np.inf, values).max(1))
