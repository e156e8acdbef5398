"""Run experiment cells: look for their records, compute what is missing, and write it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from gar.registry import METRICS
from gar.search import RunContext, one_thread, retrain, search, select
from gar.search.selection import best_configuration
from gar.stack import Fold, History, Models, StackData, StackedMLP
from gar_reproduction import provenance
from gar_reproduction.cell import Cell
from gar_reproduction.summary import Summary, read_summary, summarize, write_summary

State = Literal["found", "computed", "unfinished"]

SELECTED_BY = "mae"
"""The metric that selects the models whose curves and moments are kept."""


def run_cell(cell: Cell, records: Path, context: RunContext) -> tuple[State, Summary | None]:
    """Return the summary of a cell: read if there is a valid record, else computed and recorded; None if the time was up first.

    Args:
        cell: what to run.
        records: folder of the summaries, one file per cell.
        context: where and how to compute. Its own ``records`` are the unfinished work, from which an interrupted cell continues.
    """
    data = cell.load()
    found = read_summary(records, cell, key=cell.key(data))
    if found is not None:
        return "found", found
    if context.is_late():
        return "unfinished", None
    history = search(data, cell.models, cell.settings, context=context.labelled(cell.name))
    if not history.is_complete:
        return "unfinished", None
    summary = summarize(cell, data, history, _extras(cell, data, history))
    write_summary(records, cell, summary)
    provenance.note(records, cell.experiment)
    return "computed", summary


def run_cells(cells: Sequence[Cell], records: Path, context: RunContext, report: Callable[[Cell, State], None]) -> bool:
    """Run one cell after another and report each. Return False if the time was up before all were done."""
    for cell in cells:
        state, _ = run_cell(cell, records, context)
        report(cell, state)
        if state == "unfinished":
            return False
    return True


def _extras(cell: Cell, data: StackData, history: History) -> dict[str, np.ndarray]:
    """Return the further arrays of a summary."""
    with one_thread():
        if cell.recorded == "curve":
            return _curves(cell, data, history)
        return _moments(cell, data, history) if cell.recorded == "moments" else {}


def _curves(cell: Cell, data: StackData, history: History) -> dict[str, np.ndarray]:
    """Return metrics after the last epoch, points, truth, and the winners' predictions and slopes, ``(seeds, points)``.

    The winners, one per seed, are the combination with the least mean error after the last epoch; none if all failed. The paper's
    authors select so: by the error on the points that are not trained on, with no validation rows.
    """
    last = history.metrics[:, -1, 0].copy()
    winners = best_configuration(cell.models, last[:, METRICS[SELECTED_BY].index])
    x, y = (values[:, 0].double().numpy().copy() for values in (data.x, data.y))
    points = {"last": last, "x": x, "y": y, "trained": np.isin(np.arange(len(x)), data.folds[0].train), "winners": winners}
    if len(winners) == 0:
        empty = np.empty((0, len(data.x)), np.float32)
        return points | {"predictions": empty, "slopes": empty}
    final = np.full(len(winners), cell.settings.epochs - 1)
    networks = retrain(data, cell.models.take(winners), cell.settings, final)
    values, slopes = zip(*(value_and_slope(networks, index, data.x) for index in range(len(networks))), strict=True)
    return points | {"predictions": np.stack(values), "slopes": np.stack(slopes)}


def value_and_slope(networks: StackedMLP, index: int, x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return one network's predictions and derivatives at all points, computed in double precision."""
    points = x.detach().double().clone().requires_grad_()  # a clone: the data itself must not require gradients
    value = networks.module(index).double()(points)
    (slope,) = torch.autograd.grad(value.sum(), points)
    return (value.detach()[:, 0].numpy().astype(np.float32), slope[:, 0].numpy().astype(np.float32))


def _moments(cell: Cell, data: StackData, history: History) -> dict[str, np.ndarray]:
    """Return mean and standard deviation of the winners' predictions on the test rows after every epoch, ``(folds, epochs)``."""
    chosen = select(history, cell.models, SELECTED_BY)
    models = cell.models.take(chosen.model)
    observer = _MomentsObserver(data, models, cell.settings.epochs)
    retrain(data, models, cell.settings, chosen.epoch, observe=observer)
    labels = np.stack([data.y[torch.from_numpy(fold.test)].double().numpy() for fold in observer.folds])
    return {"winners": chosen.model, "means": observer.means, "deviations": observer.deviations} | {
        "label_means": labels.mean(1).mean(1),
        "label_deviations": labels.std(1).mean(1),
    }


class _MomentsObserver:
    """Records moments of predictions after every epoch."""

    def __init__(self, data: StackData, models: Models, epochs: int) -> None:
        self.folds: list[Fold] = [data.folds[fold] for fold in models.fold.tolist()]
        self._x = [data.x[torch.from_numpy(fold.test)].float() for fold in self.folds]
        self.means = np.full((len(models), epochs), np.nan, np.float32)
        self.deviations = self.means.copy()

    def __call__(self, epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in zip(networks.weights, indices.tolist(), strict=True):
            predictions = StackedMLP(networks.layout, row[None])(self._x[index]).predictions[0].double()
            self.means[index, epoch] = float(predictions.mean(0).mean())
            self.deviations[index, epoch] = float(predictions.std(0, correction=0).mean())
