"""The models in training: their weights, gradients and buffers, and one step of learning."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gar.stack.batches import Batch, Batches
from gar.stack.data import StackData
from gar.stack.models import Models
from gar.stack.network import initial_table
from gar.stack.objective import Labels, Objective, Slopes, first_of_each_label
from gar.stack.optimizers import Step, build_optimizer
from gar.stack.packing import models_in_cache, network_layout
from gar.stack.passes import ModelSpan, Workspace, whole_columns
from gar.stack.settings import TrainSettings
from gar.validation import NanPolicy


class ActiveStack:
    """G models that are trained as one. Models leave by :meth:`keep`; those that stay do not notice."""

    def __init__(self, data: StackData, models: Models, settings: TrainSettings, evaluation_columns: int, like: Tensor) -> None:
        self.layout = network_layout(data, settings)
        self.sources, self.folds = sorted(set(models.sources)), sorted(set(models.fold.tolist()))
        self._settings, self._evaluation_columns = settings, evaluation_columns
        self._nan_policy: NanPolicy = "omit" if data.has_missing_labels else "propagate"
        table = initial_table(self.layout, models.seed.tolist(), dtype=like.dtype).to(like.device)
        self._optimizer = build_optimizer(settings, table)
        self._counts = Counter[int]()
        self._sit(models, table)
        parameter = None if models.parameter is None else torch.as_tensor(models.parameter).to(like)
        self._objective = self._new_objective(settings.loss, parameter, settings.loss_options)

    def _new_objective(self, loss: str, parameter: Tensor | None, options: Mapping[str, Any]) -> Objective:
        device, policy = self.table.device, self._nan_policy
        return Objective(loss, parameter, self._source_spans, device=device, nan_policy=policy, options=options)

    def _sit(self, models: Models, table: Tensor) -> None:
        """Give every model its place: its weights, settings, and buffers for so many models."""
        self._models, self.table = models, table
        self._rate, self._decay = (_per_model(value, table) for value in (models.learning_rate, models.weight_decay))
        self._source_spans = _spans([self.sources.index(source) for source in models.sources])
        self.fold_spans = _spans([self.folds.index(fold) for fold in models.fold.tolist()])
        self._workspaces: dict[int, Workspace] = {}
        block = models_in_cache(self.layout, self._evaluation_columns, table.dtype)
        self.evaluation_space = Workspace(self.layout, table, self.fold_spans, self._evaluation_columns, block, training=False)

    def __len__(self) -> int:
        return len(self._models)

    def keep(self, places: np.ndarray) -> None:
        """Go on with the models at these places."""
        index = torch.from_numpy(places).to(self.table.device)
        self._optimizer.keep(index)
        self._sit(self._models.take(places), self.table[index])
        self._objective = self._objective.keep(index, self._source_spans)

    def start_finetuning(self) -> None:
        """The second phase: another loss, and the head learns too."""
        self._objective = self._new_objective(self._settings.finetune_loss, None, {})

    def is_finite(self) -> Tensor:
        """``(G,)``: whether all weights of a model are."""
        return all_finite(self.table)

    def train_epoch(self, batches: Batches, rate_factor: float) -> Tensor:
        """Learn from all batches once; returns ``(G,)``: whether all losses of a model were finite."""
        total = self.table.new_zeros(len(self))
        rate = self._rate * rate_factor
        for batch in batches:
            total += self._learn(batch, rate)
        return total.isfinite()  # a sum is finite only if all its terms are

    def _learn(self, batch: Batch, rate: Tensor) -> Tensor:
        """Forward, loss, backward and a step of the optimiser; returns the losses ``(G,)``."""
        columns = whole_columns(batch.rows)
        space = self._workspace(columns)
        space.forward(batch.x)
        slopes = self._loss_slopes(space, batch)
        by_prediction, by_feature = (_filled_up(s, columns) for s in (slopes.by_prediction, slopes.by_feature))
        parts = self._parts(head=by_prediction is not None)
        for part in parts:
            self._counts[part.start] += 1
        for block in space.blocks:
            block.backward(batch.x, by_prediction, by_feature)
            for part in parts:
                gradient, here = block.slopes.table[:, part], block.models
                step = Step(here, part, gradient, rate[here], self._decay[here], self._counts[part.start])
                self._optimizer.step(self.table, step)
        return slopes.loss

    def _loss_slopes(self, space: Workspace, batch: Batch) -> Slopes:
        rows = slice(0, batch.rows)
        target, weight = batch.y[:, :, rows].mT, None if batch.weight is None else batch.weight[:, rows]
        distinct = first_of_each_label(target, weight) if self._objective.needs_distinct else None
        features = space.hidden[-1] if space.hidden else space.predictions
        return self._objective(space.predictions[:, :, rows].mT, features[:, :, rows].mT, Labels(target, weight, distinct))

    def _parts(self, *, head: bool) -> list[slice]:
        """The columns of the table that learn. Two phases keep the head apart: it learns later, with a count of its own."""
        if not self._settings.is_two_phase:
            return [slice(0, self.layout.length)]
        encoder = slice(0, self.layout.head)
        return [encoder, slice(self.layout.head, self.layout.length)] if head else [encoder]

    def _workspace(self, columns: int) -> Workspace:
        if columns not in self._workspaces:
            block = models_in_cache(self.layout, columns, self.table.dtype)
            self._workspaces[columns] = Workspace(self.layout, self.table, self._source_spans, columns, block, training=True)
        return self._workspaces[columns]


def all_finite(values: Tensor) -> Tensor:
    """Whether all numbers of a model ``(G, ...)`` are finite; zero times anything else is NaN. Quicker than a table of bools."""
    return (0.0 * values).flatten(1).sum(1) == 0


def _per_model(values: np.ndarray, like: Tensor) -> Tensor:
    return torch.as_tensor(values).to(like).unsqueeze(1)


def _spans(sources: list[int]) -> tuple[ModelSpan, ...]:
    """Neighbours that read the same source."""
    spans, start = [], 0
    for source, members in groupby(sources):
        stop = start + len(list(members))
        spans.append(ModelSpan(start, stop, source))
        start = stop
    return tuple(spans)


def _filled_up(slope: Tensor | None, columns: int) -> Tensor | None:
    """``(G, rows, width)`` as ``(G, width, columns)``, zero in columns that hold no row.

    Always in fresh memory: the matrix library looks at strides, even those of a dimension of size 1, to choose its method.
    """
    if slope is None:
        return None
    filled = slope.new_zeros(slope.shape[0], slope.shape[2], columns)
    filled[..., : slope.shape[1]] = slope.mT
    return filled
