"""Successive halving: candidates, the rungs in which they are trained, and the networks of a rung that predict."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.encoding import Encoder
from gar.estimators.base import Member
from gar.estimators.budget import WorkMeter
from gar.estimators.presets import SMALL_ROWS, batch_size_for, train_rows, train_settings
from gar.groups import order_by_groups
from gar.metrics import Evaluator
from gar.registry import METRICS
from gar.search import RunContext, search
from gar.stack import Fold, History, Models, StackData, StackedMLP

Stack = tuple[str | None, int | None]
"""Encoding and batch size, which networks trained as one stack have in common."""

Tables = Mapping[str | None, StackData]
"""The table in each encoding to try."""

VALIDATION_ROWS, TRIAL_VALIDATION_ROWS = 10_000, 2000
"""Most validation rows of a fold, and those of its trials: scores of more of them would be hardly more exact."""

_GREEDY_STEPS = 8
"""Networks of a fold that are averaged at most, one of them more than once perhaps."""


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

    def chosen(self, tables: Tables, encoders: Sequence[Encoder], metric: str) -> list[list[Candidate]]:
        """Return for each fold of the rung the candidates to average; one that counts twice occurs twice.

        They are chosen by the validation rows of all folds together, so that every fold has the same. Candidates that failed on
        some fold are left out, unless all of them did: then a fold has those that did not fail on it.
        """
        finite = np.isfinite(self.scores[list(self.folds)])
        everywhere = [candidate for candidate, one in zip(self.candidates, finite.T, strict=True) if one.all()]
        if not everywhere:
            return [[one for one, is_finite in zip(self.candidates, row, strict=True) if is_finite] for row in finite]
        if len(everywhere) > 1:
            everywhere = self._best_mean(everywhere, tables, encoders, metric)
        return [everywhere] * len(self.folds)

    def _best_mean(self, candidates: list[Candidate], tables: Tables, encoders: Sequence[Encoder], metric: str) -> list[Candidate]:
        """Return the candidates whose mean has the best score on the validation rows of all folds."""
        table = with_fewer_rows(tables[candidates[0].encoding], SMALL_ROWS, VALIDATION_ROWS, seed=0)
        valid = {fold: torch.from_numpy(table.folds[fold].valid) for fold in self.folds}
        predicted = torch.cat([self._predicted(fold, candidates, tables, encoders, table.x[own]) for fold, own in valid.items()], 1)
        rows, groups = torch.cat(list(valid.values())), None
        if table.pair_groups is not None:  # those of each fold are numbered anew: it has networks of its own
            groups = torch.cat([table.pair_groups[own] + fold * len(table.x) for fold, own in valid.items()])
        weight = None if table.sample_weight is None else table.sample_weight[rows]
        return [candidates[index] for index in sorted(greedy_choice(predicted, table.y[rows], weight, metric, groups))]

    def _predicted(self, fold: int, candidates: list[Candidate], tables: Tables, encoders: Sequence[Encoder], x: Tensor) -> Tensor:
        """Return predictions ``(candidates, rows, targets)`` by the networks of a fold."""
        members = [self.members(fold, [candidate], tables, encoders[fold])[0] for candidate in candidates]
        return torch.cat([member.predict(x) for member in members])

    def members(self, fold: int, chosen: list[Candidate], tables: Tables, encoder: Encoder) -> list[Member]:
        """Return the networks of some candidates on a fold, each at its best epoch; those of one encoding are one stack."""
        members = []
        for encoding in dict.fromkeys(candidate.encoding for candidate in chosen):
            found = [self._model(fold, candidate) for candidate in chosen if candidate.encoding == encoding]
            networks = StackedMLP.joined([history.best.take([model]) for history, model in found])
            own = tables[encoding].folds[fold]
            members.append(Member(networks, encoder, own.features, own.labels))
        return members

    def _model(self, fold: int, candidate: Candidate) -> tuple[History, int]:
        """Return the history that a candidate's network of a fold is in, and its index there."""
        members = [other for other in self.candidates if other.stack == candidate.stack]
        return self.runs[candidate.stack][1], list(self.folds).index(fold) * len(members) + members.index(candidate)


@dataclass(frozen=True)
class CandidateTrainer:
    """Trains candidates of one search, and holds what all its networks have in common.

    Args:
        settings: the loss, its options and the settings of a preset that are not tuned, for :func:`train_settings`.
        scoring: the metric by which epochs are chosen.
        seed: of initial weights and batches.
        device: where to train.
        workers: processes to train with.
        meter: to which progress is reported.
    """

    settings: Mapping[str, Any]
    scoring: str
    seed: int
    device: torch.device
    workers: int
    meter: WorkMeter

    def train_rung(
        self,
        tables: Tables,
        candidates: list[Candidate],
        folds: Sequence[int],
        epochs: int,
        deadline: float | None,
        *,
        varied_seeds: bool = False,
    ) -> Rung:
        """Train candidates on some folds; those with equal encoding and batch size are one stack.

        With ``varied_seeds`` every candidate has other initial weights and batches, so that their mean is better than each.
        """
        start, work = time.monotonic(), 0
        scores = np.full((len(next(iter(tables.values())).folds), len(candidates)), np.nan)
        runs = {}
        for stack in dict.fromkeys(candidate.stack for candidate in candidates):
            indices = [index for index, candidate in enumerate(candidates) if candidate.stack == stack]
            members, table = [candidates[index] for index in indices], tables[stack[0]]
            seeds = self.seed + np.array(indices if varied_seeds else [0] * len(indices))
            keep = {"keep_best": self.scoring, "monitor": self.scoring}
            runs[stack] = self.train_stack(table, members, folds, seeds, deadline, epochs=epochs, **keep)
            values = METRICS[self.scoring].sign * runs[stack][1].of("valid", self.scoring)
            best = np.where(np.isnan(values), -np.inf, values).max(1)
            scores[np.ix_(folds, indices)] = best.reshape(len(folds), -1)
            work += int(runs[stack][1].epochs_run.sum()) * train_rows(table)
        return Rung(candidates, folds, epochs, scores, runs, (time.monotonic() - start) / max(work, 1))

    def train_stack(
        self,
        data: StackData,
        candidates: list[Candidate],
        folds: Sequence[int],
        seeds: np.ndarray,
        deadline: float | None,
        **more: Any,
    ) -> tuple[Models, History]:
        """Train candidates of one stack, all on the first fold, then all on the next; ``more`` are settings of training."""
        rows, (encoding, batch_size) = train_rows(data), candidates[0].stack
        given = {**self.settings, "features": data.x.shape[1], "rows": rows, "encoding": encoding}
        settings = train_settings(**given, batch_size=batch_size or batch_size_for(rows), **more)
        _, _, rates, decays, parameters = zip(*candidates, strict=True)
        models = Models(
            fold=np.repeat(folds, len(candidates)),
            seed=np.tile(seeds, len(folds)),
            learning_rate=np.tile(rates, len(folds)),
            weight_decay=np.tile(decays, len(folds)),
            parameter=None if parameters[0] is None else np.tile(parameters, len(folds)),
        )
        label = f"{encoding or 'plain'} features, {rows:,} rows"
        progress = self.meter.part(len(models) * settings.epochs * rows)
        context = RunContext(workers=self.workers, progress=progress, label=label, deadline=deadline)
        return models, search(data, models, settings, context=context, device=self.device)


def greedy_choice(
    predictions: Tensor, target: Tensor, weight: Tensor | None, metric: str, groups: Tensor | None = None
) -> list[int]:
    """Return which networks to average, by their scores on validation rows (Caruana et al. 2004).

    Beginning with none, the network is added that makes the score of the mean best, again and again; a network may be added more
    than once. The best of these means is returned.

    Args:
        predictions: of the validation rows, ``(networks, rows, targets)``.
        target: their labels ``(rows, targets)``, NaN where one is missing.
        weight: how often each row counts, ``(rows,)``, or None.
        metric: the metric to improve.
        groups: within which correlations are taken, or None.
    """
    evaluate, spec = Evaluator(target, weight=weight, groups=groups), METRICS[metric]
    total, chosen = torch.zeros_like(predictions[0]), list[int]()
    best, best_score = list[int](), -np.inf
    for step in range(1, _GREEDY_STEPS + 1):
        scores = (spec.sign * evaluate((total + predictions) / step)[:, spec.index]).nan_to_num(nan=-np.inf, neginf=-np.inf)
        chosen.append(int(scores.argmax()))
        total = total + predictions[chosen[-1]]
        if scores[chosen[-1]] > best_score or not best:
            best, best_score = list(chosen), float(scores[chosen[-1]])
    return best


def with_at_most(tables: Tables, train: int, valid: int, seed: int) -> Tables:
    """Return the tables with at most this many training and validation rows in a fold."""
    return {name: with_fewer_rows(table, train, valid, seed=seed) for name, table in tables.items()}


def with_fewer_rows(data: StackData, train: int, valid: int, *, seed: int) -> StackData:
    """Return a table whose folds have at most so many training and validation rows, drawn at random; scalings stay as they are.

    Rows that are compared in groups are drawn together.
    """
    generator = np.random.default_rng(seed)

    def drawn(rows: np.ndarray, most: int) -> np.ndarray:
        if len(rows) <= most:
            return rows
        groups = data.groups_of(rows)
        if groups is None:
            return np.sort(generator.choice(rows, most, replace=False))
        codes = np.unique(groups.numpy(), return_inverse=True)[1]
        return np.sort(rows[order_by_groups(codes, generator)[:most]])

    def smaller(fold: Fold) -> Fold:
        return replace(fold, train=drawn(fold.train, train), valid=drawn(fold.valid, valid))

    folds = [smaller(fold) for fold in data.folds]
    if all(small.train is fold.train and small.valid is fold.valid for small, fold in zip(folds, data.folds, strict=True)):
        return data
    return data.with_folds(folds)
