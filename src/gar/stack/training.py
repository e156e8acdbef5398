"""Training: many models, one program."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.stack.active import ActiveStack, all_finite
from gar.stack.batches import Batches, check_batches
from gar.stack.data import StackData
from gar.stack.evaluation import Evaluation
from gar.stack.history import History
from gar.stack.memory import check_memory
from gar.stack.models import Models
from gar.stack.network import StackedMLP
from gar.stack.objective import check_parameter_of
from gar.stack.optimizers import rate_factor
from gar.stack.packing import chunks, fold_sizes, network_layout
from gar.stack.settings import TrainSettings
from gar.stack.tracking import Tracker

Observer = Callable[[int, np.ndarray, StackedMLP], None]
"""Told after every epoch: its number from 0, which models were in training, as places among all, and these as they are now."""


def train(
    data: StackData,
    models: Models,
    settings: TrainSettings,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    chunk_size: int | None = None,
    observe: Observer | None = None,
) -> History:
    """Train all models and measure them after every epoch.

    Args:
        data: the table and its folds.
        models: what the models differ in.
        settings: what they have in common.
        device: where to train.
        dtype: float32 or float64.
        chunk_size: the most models to train at once; None chooses it for the cache. On the CPU it changes no bit of the result.
        observe: called with ``(epoch, places, networks)`` after every epoch of every chunk. The networks are those in training,
            also one that has just failed; whoever wants to keep their weights copies them.

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
    history = History.empty(network_layout(data, settings), len(models), settings, dtype=dtype)
    like = torch.empty(0, device=device, dtype=dtype)
    with torch.no_grad(), np.errstate(all="ignore"):  # what is not finite shows in the history
        for places in chunks(data, models, settings, limit=chunk_size, dtype=dtype):
            history.put(places, _train_chunk(data, models.take(places), settings, like, _for_chunk(observe, places)))
    return history


def check_training(data: StackData, models: Models, settings: TrainSettings, dtype: torch.dtype) -> None:
    """Everything that can be wrong, before anything is trained."""
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"dtype={dtype} is not supported; use torch.float32 or torch.float64")
    check_batches(data, models.fold, settings.batch_size, settings.drop_last)
    check_parameter_of(settings.loss, models.parameter)
    if models.parameter is not None and settings.spec.parameter in settings.loss_options:
        raise InputError(f"{settings.spec.parameter} is given to the models and in loss_options; leave it out of loss_options")
    if settings.keep_best is None and settings.patience is None:
        return
    for fold in np.unique(models.fold).tolist():
        if data.labelled(data.folds[fold].valid) == 0:
            raise InputError(
                f"fold {fold} has no validation labels that count, which keep_best and patience need; give it some or turn them off"
            )


def _for_chunk(observe: Observer | None, places: np.ndarray) -> Observer | None:
    """Places within a chunk become places among all models."""
    if observe is None:
        return None
    return lambda epoch, within, networks: observe(epoch, places[within], networks)


def _train_chunk(
    data: StackData, models: Models, settings: TrainSettings, like: Tensor, observe: Observer | None = None
) -> History:
    """Models that are trained together: those of one (fold, seed) are neighbours, and all have batches of equal sizes."""
    evaluation = Evaluation(data, sorted(set(models.fold.tolist())), like)
    stack = ActiveStack(data, models, settings, evaluation.block, like)
    batches = Batches(data, stack.sources, fold_sizes(data, stack.folds[0], settings), like)
    tracker = Tracker(History.empty(stack.layout, len(models), settings, dtype=like.dtype), settings)
    for epoch in range(settings.epochs):
        if epoch == settings.first_phase:
            stack.start_finetuning()
        finite = stack.train_epoch(batches, rate_factor(settings, epoch))
        predictions = evaluation.predict(stack.evaluation_space)
        finite &= stack.is_finite() & all_finite(predictions)
        tracker.record(epoch, evaluation.metrics(predictions, stack.fold_spans), finite.cpu().numpy(), stack.table)
        if observe is not None:
            observe(epoch, tracker.places, StackedMLP(stack.layout, stack.table))
        if len(tracker.going_on) < len(stack):
            if len(tracker.going_on) == 0:
                break
            stack.keep(tracker.going_on)
            tracker.keep_going()
    return tracker.history
