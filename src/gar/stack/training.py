"""Training: many models, one program. :func:`train` is the loop, read from top to bottom."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.groups import order_by_groups
from gar.metrics import Evaluator
from gar.registry import LOSSES, METRICS, LossSpec
from gar.stack.chunking import check_memory, check_training, chunks, fold_batch_sizes, whole_columns
from gar.stack.data import SPLITS, Fold, StackData
from gar.stack.expansion import ExpandedFeatures
from gar.stack.history import History, HistoryRecorder
from gar.stack.network import StackedMLP, initial_weights
from gar.stack.objective import Labels, Objective, first_of_each_label
from gar.stack.optimizers import Step, build_optimizer
from gar.stack.passes import ModelSpan, Workspace, padded
from gar.stack.settings import Models, TrainSettings
from gar.validation import NanPolicy

EVALUATION_COLUMNS = 512
"""Rows that are evaluated at a time: enough to keep the arithmetic busy, few enough to stay in cache."""

Observer = Callable[[int, np.ndarray, StackedMLP], None]
"""Callback after every epoch: its number from 0, the indices of the models in training, and their networks."""

EpochCheck = Callable[[int], bool]
"""Callback before the first epoch and after every one, with the number of epochs that are done. Training goes on if it returns
True; otherwise models keep what they have."""


def train(
    data: StackData,
    models: Models,
    settings: TrainSettings,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    chunk_size: int | None = None,
    observe: Observer | None = None,
    go_on: EpochCheck | None = None,
) -> History:
    """Train all models and measure them after every epoch.

    Args:
        data: the table and its folds.
        models: what the models differ in.
        settings: what they share.
        device: where to train.
        dtype: float32 or float64.
        chunk_size: the most models to train at once; None chooses it for the cache. On the CPU it changes no bit of the result.
        observe: called with ``(epoch, indices, networks)`` after every epoch of every chunk. The networks are those in training,
            including one that has just failed. Their weights are overwritten by the next step: copy what you want to keep.
        go_on: called with the number of epochs done, before the first epoch of every chunk and after every epoch. Once it returns
            False, training ends, and the history is marked as cut (``is_cut``).

    Returns:
        The history, in the order of ``models``.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> data = StackData(x, x.sum(1), [(np.arange(40), np.arange(40, 50), np.arange(50, 60))])
        >>> models = Models.grid(learning_rates=(0.1, 0.01), parameters=(0.1, 1.0, 10.0))
        >>> train(data, models, TrainSettings(epochs=2, batch_size=20)).metrics.shape
        (6, 2, 2, 5)
    """
    check_training(data, models, settings, dtype)
    if torch.device(device).type == "cpu":
        check_memory(data, models, settings, dtype=dtype, chunk_size=chunk_size)
    history = History.empty(settings.layout(data), len(models), settings, dtype=dtype)
    like = torch.empty(0, device=device, dtype=dtype)
    with torch.no_grad(), np.errstate(all="ignore"):  # what is not finite shows in the history
        for indices in chunks(data, models, settings, limit=chunk_size, dtype=dtype):
            if go_on is not None and not go_on(0):
                history.is_cut = True
                break
            history.put(indices, _train_chunk(data, models.take(indices), settings, like, _for_chunk(observe, indices), go_on))
    return history


def _for_chunk(observe: Observer | None, indices: np.ndarray) -> Observer | None:
    """Return an observer that translates indices within a chunk to indices among all models."""
    if observe is None:
        return None
    return lambda epoch, within, networks: observe(epoch, indices[within], networks)


def _train_chunk(
    data: StackData,
    models: Models,
    settings: TrainSettings,
    like: Tensor,
    observe: Observer | None = None,
    go_on: EpochCheck | None = None,
) -> History:
    """Train one chunk: models of one (fold, seed) are neighbours, and all have batches of equal sizes."""
    evaluation = Evaluation(data, sorted(set(models.fold.tolist())), like)
    stack = ActiveStack(data, models, settings, like)
    batches = Batches(data, stack.sources, settings, like)
    recorder = HistoryRecorder(History.empty(stack.layout, len(models), settings, dtype=like.dtype), settings)
    for epoch in range(settings.epochs):
        if epoch == settings.first_phase_epochs:
            stack.start_finetuning()
        finite = stack.train_epoch(batches, settings.rate_factor(epoch))
        predictions = evaluation.predict(stack.workspace(evaluation.columns, training=False))
        finite &= all_finite(stack.weights) & all_finite(predictions)
        is_last = epoch + 1 == settings.epochs or not (go_on is None or go_on(epoch + 1))
        recorder.record(epoch, evaluation.metrics(predictions, stack.fold_spans), finite.cpu().numpy(), stack.weights, is_last)
        if observe is not None:
            observe(epoch, recorder.indices, StackedMLP(stack.layout, stack.weights))
        if len(recorder.continuing) < len(stack):
            if len(recorder.continuing) == 0:
                break
            stack.select(recorder.continuing)
            recorder.drop_finished()
    return recorder.history


def all_finite(values: Tensor) -> Tensor:
    """Return whether all numbers of a model ``(G, ...)`` are finite, ``(G,)``.

    Zero times anything that is not finite is NaN; this is faster than a tensor of booleans.
    """
    return (0.0 * values).flatten(1).sum(1) == 0


class ActiveStack:
    """The models in training, with weights, optimizer state and buffers. Models leave by :meth:`select`, without effect on the
    others."""

    def __init__(self, data: StackData, models: Models, settings: TrainSettings, like: Tensor) -> None:
        self.layout, self._settings = settings.layout(data), settings
        self.sources, self.folds = sorted(set(models.sources)), sorted(set(models.fold.tolist()))
        self._nan_policy: NanPolicy = "omit" if data.has_missing_labels else "propagate"
        weights = initial_weights(self.layout, models.seed.tolist(), dtype=like.dtype).to(like.device)
        self._optimizer = build_optimizer(settings, weights)
        self._step_counts = Counter[int]()
        self._set_models(models, weights)
        parameter = None if models.parameter is None else torch.as_tensor(models.parameter).to(like)
        self._set_loss(settings.loss, parameter, settings.loss_options)

    def _set_models(self, models: Models, weights: Tensor) -> None:
        self._models, self.weights = models, weights
        self._rate, self._decay = (
            torch.as_tensor(values).to(weights).unsqueeze(1) for values in (models.learning_rate, models.weight_decay)
        )
        self._source_spans = _spans([self.sources.index(source) for source in models.sources])
        self.fold_spans = _spans([self.folds.index(fold) for fold in models.fold.tolist()])
        self._workspaces: dict[tuple[int, bool], Workspace] = {}

    def _set_loss(self, loss: str, parameter: Tensor | None, options: Mapping[str, Any]) -> None:
        device, policy = self.weights.device, self._nan_policy
        self._objective = Objective(loss, parameter, self._source_spans, device=device, nan_policy=policy, options=options)
        self._trained_columns = self._columns_trained_by(LOSSES[loss])

    def _columns_trained_by(self, spec: LossSpec) -> list[slice]:
        """Return the columns of the weights that a loss trains. With two phases the head is apart: it has its own step count."""
        if not self._settings.is_two_phase:
            return [slice(0, self.layout.length)]
        encoder = slice(0, self.layout.head_start)
        return [encoder, slice(self.layout.head_start, self.layout.length)] if "pred" in spec.inputs else [encoder]

    def start_finetuning(self) -> None:
        """Start the second phase: another loss, which trains the head too."""
        self._set_loss(self._settings.finetune_loss, None, {})

    def __len__(self) -> int:
        return len(self._models)

    def select(self, indices: np.ndarray) -> None:
        """Continue with the models at these indices only."""
        index = torch.from_numpy(indices).to(self.weights.device)
        self._optimizer.select(index)
        self._set_models(self._models.take(indices), self.weights[index])
        self._objective = self._objective.keep(index, self._source_spans)

    def workspace(self, columns: int, *, training: bool) -> Workspace:
        """Return the buffers for this many columns: of every source in training, else of every fold; allocated once."""
        key = columns, training
        if key not in self._workspaces:
            spans = self._source_spans if training else self.fold_spans
            self._workspaces[key] = Workspace(self.layout, self.weights, spans, columns, training=training)
        return self._workspaces[key]

    def train_epoch(self, batches: "Batches", rate_factor: float) -> Tensor:
        """Train on all batches once; return whether all losses of a model were finite, ``(G,)``."""
        total = self.weights.new_zeros(len(self))
        rate = self._rate * rate_factor
        for batch in batches:
            total += self.train_step(batch, rate)
        return total.isfinite()  # a sum is finite only if all its terms are

    def train_step(self, batch: "Batch", rate: Tensor) -> Tensor:
        """Do forward, loss, backward and a step of the optimizer; return the losses ``(G,)``."""
        columns, rows = whole_columns(batch.rows), slice(0, batch.rows)
        space = self.workspace(columns, training=True)
        space.forward(batch.x)
        target, weight = batch.y[:, :, rows].mT, None if batch.weight is None else batch.weight[:, rows]
        distinct = first_of_each_label(target, weight) if self._objective.spec.needs_distinct_labels else None
        features = space.hidden[-1] if space.hidden else space.predictions
        labels = Labels(target, weight, distinct, None if batch.groups is None else batch.groups[:, rows])
        loss, *gradients = self._objective(space.predictions[:, :, rows].mT, features[:, :, rows].mT, labels)
        by_prediction, by_feature = (None if gradient is None else padded(gradient, columns) for gradient in gradients)
        for part in self._trained_columns:
            self._step_counts[part.start] += 1
        for block in space.blocks:
            block.backward(batch.x, by_prediction, by_feature)
            for part in self._trained_columns:
                gradient, here = block.gradients.values[:, part], block.models
                step = Step(here, part, gradient, rate[here], self._decay[here], self._step_counts[part.start])
                self._optimizer.step(self.weights, step)
        return loss


def _spans(sources: list[int]) -> tuple[ModelSpan, ...]:
    """Return the spans of neighbours that read the same source."""
    spans, start = [], 0
    for source, members in groupby(sources):
        stop = start + len(list(members))
        spans.append(ModelSpan(start, stop, source))
        start = stop
    return tuple(spans)


class Batch(NamedTuple):
    """A mini-batch of every source: ``x (sources, features, columns)``, ``y (sources, targets, columns)``, weights and groups
    ``(sources, columns)`` or None. The first ``rows`` columns count; the rest is zero."""

    x: Tensor
    y: Tensor
    weight: Tensor | None
    groups: Tensor | None
    rows: int


class Batches:
    """The mini-batches of several sources ``(fold, seed)``, which have equal batch sizes."""

    def __init__(self, data: StackData, sources: list[tuple[int, int]], settings: TrainSettings, like: Tensor) -> None:
        self.sizes = fold_batch_sizes(data, sources[0][0], settings)
        rows = {fold: _TrainRows(data, data.folds[fold], like) for fold, _ in sources}
        self._sources = [_Source(rows[fold], fold, seed, self.sizes) for fold, seed in sources]
        columns = sum(map(whole_columns, self.sizes))
        self._x, self._y = (like.new_empty(len(sources), values.shape[1], columns) for values in (data.x, data.y))
        self._expand = _Expansion([data.folds[fold] for fold, _ in sources], data.inputs, like)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of the next epoch, in the memory of the last epoch's."""
        pairs, x, y = [(source.rows, source.next_order()) for source in self._sources], self._x, self._y
        for index, (rows, order) in enumerate(pairs):
            torch.index_select(rows.x, 1, order, out=x[index])
            torch.index_select(rows.y, 1, order, out=y[index])
        weight = _of_sources([(rows.weight, order) for rows, order in pairs])
        groups = _of_sources([(rows.groups, order) for rows, order in pairs])
        start = 0
        for size in self.sizes:
            own = slice(start, start + whole_columns(size))
            own_weight, own_groups = (None if values is None else values[:, own] for values in (weight, groups))
            yield Batch(self._expand(x[:, :, own]), y[:, :, own], own_weight, own_groups, size)
            start = own.stop


def _of_sources(pairs: list[tuple[Tensor | None, Tensor]]) -> Tensor | None:
    """Return values of rows ``(rows,)`` in the order of every source, ``(sources, columns)``; None if there are none."""
    found = [values.index_select(0, order) for values, order in pairs if values is not None]
    return torch.stack(found) if found else None


class _Expansion:
    """Expands the features of a batch when it is needed: those of all rows of a large table would fill the memory."""

    def __init__(self, folds: list[Fold], inputs: int, like: Tensor) -> None:
        features = [fold.features for fold in folds if isinstance(fold.features, ExpandedFeatures)]
        self._features = ExpandedFeatures.joined(features, like) if features else None
        self._inputs, self._buffers = inputs, dict[int, Tensor]()

    def __call__(self, x: Tensor) -> Tensor:
        """Return network inputs ``(sources, inputs, columns)`` of scaled features, in memory that the next batch overwrites."""
        if self._features is None:
            return x
        columns = x.shape[-1]
        if columns not in self._buffers:
            self._buffers[columns] = x.new_empty(len(x), self._inputs, columns)
        self._features.expand(x, self._buffers[columns])
        return self._buffers[columns]


class _TrainRows:
    """Features, labels, weights and groups of a fold's training rows, a column for each; a last column of zeros pads batches."""

    def __init__(self, data: StackData, fold: Fold, like: Tensor) -> None:
        x, y = data.scaled_rows(fold, fold.train, like, expanded=False)
        self.x, self.y = (_with_zero_row(values).T.contiguous() for values in (x, y))
        weight = data.sample_weight
        self.weight = None if weight is None else _with_zero_row(weight[torch.from_numpy(fold.train)].to(like))
        groups = data.groups_of(fold.train)
        self.codes = None if groups is None else np.unique(groups.numpy(), return_inverse=True)[1]
        self.groups = None if self.codes is None else _with_zero_row(torch.from_numpy(self.codes)).to(like.device)


def _with_zero_row(values: Tensor) -> Tensor:
    return torch.cat([values, values.new_zeros(1, *values.shape[1:])])


class _Source:
    """The training rows of one ``(fold, seed)``, shuffled anew in every epoch."""

    def __init__(self, rows: _TrainRows, fold: int, seed: int, sizes: tuple[int, ...]) -> None:
        self.rows = rows
        self._padding = rows.x.shape[1] - 1
        self._orders = row_orders(seed, fold, self._padding, rows.codes)
        starts = np.cumsum([0, *map(whole_columns, sizes)])
        self._columns = np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes, strict=False)])
        """Columns that rows are copied to, batch after batch; each batch begins at a multiple of the column step."""
        self._used, self._total = sum(sizes), int(starts[-1])

    def next_order(self) -> Tensor:
        """Return the row indices of all batches of the next epoch, one after another, each padded to whole columns."""
        indices = np.full(self._total, self._padding)
        indices[self._columns] = next(self._orders)[: self._used]
        return torch.from_numpy(indices).to(self.rows.x.device)


def row_orders(seed: int, fold: int, rows: int, codes: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Yield the order of a fold's training rows in one epoch after another, without end; rows of a group come together.

    Example:
        >>> [order.tolist() for order, _ in zip(row_orders(1, 0, 4), range(2))]
        [[0, 1, 2, 3], [3, 0, 2, 1]]
    """
    generator = np.random.default_rng([seed, fold])
    while True:
        yield generator.permutation(rows) if codes is None else order_by_groups(codes, generator)


class Evaluation:
    """Predicts validation and test rows of all folds, ``columns`` at a time, and computes their metrics.

    Every fold gets the columns of the largest fold of the data, so the shape of a product does not depend on which folds happen to
    share a stack.
    """

    def __init__(self, data: StackData, folds: list[int], like: Tensor) -> None:
        widest = max(1, *(len(fold.valid) + len(fold.test) for fold in data.folds))
        blocks = -(-widest // EVALUATION_COLUMNS)
        self.columns = whole_columns(-(-widest // blocks))
        self._folds = [_FoldEvaluation(data, data.folds[fold], self.columns * blocks, like) for fold in folds]
        self._x = torch.stack([fold.x for fold in self._folds])

    def predict(self, workspace: Workspace) -> Tensor:
        """Return predictions ``(G, targets, columns)`` of the models of a workspace, whose spans name their folds."""
        parts = []
        for start in range(0, self._x.shape[-1], self.columns):
            workspace.forward(self._x[:, :, start : start + self.columns])
            parts.append(workspace.predictions.clone())
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def metrics(self, predictions: Tensor, spans: tuple[ModelSpan, ...]) -> np.ndarray:
        """Return metrics ``(G, splits, metrics)``."""
        values = [self._folds[span.source].metrics(predictions[span.start : span.stop]) for span in spans]
        return torch.cat(values).cpu().numpy()


class _FoldEvaluation:
    """Validation and test rows of a fold side by side, ``x (features, columns)``; unused columns are zero."""

    def __init__(self, data: StackData, fold: Fold, columns: int, like: Tensor) -> None:
        self.x = like.new_zeros(data.inputs, columns)
        self._splits: list[tuple[slice, Evaluator | None]] = []
        self._labels = fold.labels
        start = 0
        for name in SPLITS:
            rows = fold.of_split(name)
            own = slice(start, start + len(rows))
            self.x[:, own] = data.scaled_rows(fold, rows, like)[0].T
            index = torch.from_numpy(rows)
            weight = None if data.sample_weight is None else data.sample_weight[index]
            evaluate = Evaluator(data.y[index], weight=weight, groups=data.groups_of(rows)) if len(rows) else None
            self._splits.append((own, evaluate))
            start += len(rows)

    def metrics(self, predictions: Tensor) -> Tensor:
        """Return metrics ``(models, splits, metrics)`` of predictions ``(models, targets, columns)``."""
        if self._labels is not None:
            predictions = self._labels.undo(predictions.double().mT).mT
        nothing = predictions.new_full((len(predictions), len(METRICS)), torch.nan, dtype=torch.float64)
        values = [nothing if evaluate is None else evaluate(predictions[:, :, own].mT) for own, evaluate in self._splits]
        return torch.stack(values, 1)
