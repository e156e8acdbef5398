"""Train the winners of a search again: a search keeps no weights, since thousands of models would fill the disk."""

import numpy as np
from torch import Tensor

from gar.search.tasks import one_thread
from gar.stack import Models, StackData, StackedMLP, TrainSettings, train
from gar.stack.training import Observer


def retrain(
    data: StackData, models: Models, settings: TrainSettings, epochs: np.ndarray, *, observe: Observer | None = None
) -> StackedMLP:
    """Train a few models as one small stack, and return each network as it was after its epoch.

    On the CPU they give the same numbers as in the search, bit for bit.

    Args:
        data: that of the search.
        models: the winners.
        settings: those of the search.
        epochs: the epoch of each winner, counted from 0.
        observe: called after every epoch, as in :func:`gar.stack.train`.
    """
    snapshots: dict[int, Tensor] = {}

    def keep(epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in enumerate(indices.tolist()):
            if epochs[index] == epoch:
                snapshots[index] = networks.table[row].clone()
        if observe is not None:
            observe(epoch, indices, networks)

    with one_thread():
        history = train(data, models, settings, observe=keep)
    table = next(iter(snapshots.values())).new_full((len(models), history.layout.length), np.nan)
    for index, row in snapshots.items():
        table[index] = row
    return StackedMLP(history.layout, table)
