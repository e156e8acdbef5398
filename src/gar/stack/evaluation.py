"""Metrics of all models on validation and test rows, after every epoch."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gar.metrics import METRICS, Evaluator
from gar.stack.batches import scaled_rows
from gar.stack.data import SPLITS, Fold, StackData
from gar.stack.passes import ModelSpan, Workspace, whole_columns

BLOCK_COLUMNS = 512
"""Rows evaluated at a time: enough to keep the arithmetic busy, few enough to stay in cache."""


class _Part(NamedTuple):
    """One split of one fold: its columns among the predictions, and the labels' side of the metrics."""

    columns: slice
    evaluator: Evaluator


class _FoldRows:
    """Validation and test rows of a fold side by side, ``x (features, columns)``; columns left over are zero."""

    def __init__(self, data: StackData, fold: Fold, columns: int, like: Tensor) -> None:
        self.x = like.new_zeros(data.inputs, columns)
        self.parts: list[_Part | None] = []
        self._labels = fold.labels
        start = 0
        for name in SPLITS:
            rows = fold.of_split(name)
            place = slice(start, start + len(rows))
            self.x[:, place] = scaled_rows(data, fold, rows, like)[0].T
            index = torch.from_numpy(rows)
            weight = None if data.sample_weight is None else data.sample_weight[index]
            self.parts.append(_Part(place, Evaluator(data.y[index], weight=weight)) if len(rows) else None)
            start += len(rows)

    def metrics(self, predictions: Tensor) -> Tensor:
        """``(models, splits, metrics)`` of predictions ``(models, targets, columns)``."""
        if self._labels is not None:
            predictions = self._labels.undo(predictions.double().mT).mT
        nothing = predictions.new_full((len(predictions), len(METRICS)), torch.nan, dtype=torch.float64)
        values = [nothing if part is None else part.evaluator(predictions[:, :, part.columns].mT) for part in self.parts]
        return torch.stack(values, 1)


class Evaluation:
    """Predicts all rows of all folds block by block and compares them with their labels.

    Every fold gets the columns of the largest fold of the data, so the shape of a product does not depend on which folds
    happen to share a stack.
    """

    def __init__(self, data: StackData, folds: list[int], like: Tensor) -> None:
        widest = max(1, *(sum(len(fold.of_split(name)) for name in SPLITS) for fold in data.folds))
        blocks = -(-widest // BLOCK_COLUMNS)
        self.block = whole_columns(-(-widest // blocks))
        self._columns = self.block * blocks
        self._folds = [_FoldRows(data, data.folds[fold], self._columns, like) for fold in folds]
        self._x = torch.stack([fold.x for fold in self._folds])

    def predict(self, workspace: Workspace) -> Tensor:
        """``(G, targets, columns)`` of the models of a workspace, whose spans say which of the folds they belong to."""
        blocks = []
        for start in range(0, self._columns, self.block):
            workspace.forward(self._x[:, :, start : start + self.block])
            blocks.append(workspace.predictions.clone())
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks, -1)

    def metrics(self, predictions: Tensor, spans: tuple[ModelSpan, ...]) -> np.ndarray:
        """``(G, splits, metrics)``."""
        values = [self._folds[span.source].metrics(predictions[span.start : span.stop]) for span in spans]
        return torch.cat(values).cpu().numpy()
