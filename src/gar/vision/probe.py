"""Linear probes: how well a linear regressor on frozen features predicts a target.

All regressors of a loss (learning rates, decays, loss parameters, seeds) are one stack without hidden layers, trained by
:func:`gar.search.search`: the paper's grid of 30 configurations and five seeds is one tensor program, not 150 runs.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from gar.errors import InputError
from gar.registry import LOSSES, METRICS
from gar.search import RunContext, Selection, search
from gar.search.selection import best_configuration
from gar.stack import History, Models, Scaling, StackData, TrainSettings
from gar.stack.settings import Metric
from gar.validation import check_choice, whole_number
from gar.vision.defaults import LEARNING_RATES, SEEDS, WEIGHT_DECAYS, probe_losses

Part = tuple[ArrayLike | Tensor, ArrayLike | Tensor]
"""Features ``(rows, width)`` and targets ``(rows,)`` or ``(rows, targets)`` of one split."""


@dataclass(frozen=True)
class Probe:
    """What a linear probe found."""

    loss: str
    learning_rate: float
    weight_decay: float
    parameter: float | None
    """The winning configuration; the parameter is that of the loss, None for a loss without one."""
    best: Selection
    """The winners, one per seed, all of this configuration; ``best.mean("test", "mae")`` and ``best.std("test", "mae")`` are what
    the paper reports."""
    models: Models
    history: History
    scaling: Scaling | None
    """Of features, if they were standardised."""

    def heads(self) -> list[nn.Linear]:
        """Return the winners with the weights of their best epoch, one per seed; they take features as they were given."""
        networks, heads = self.history.best, []
        for index in self.best.model.tolist():
            head = networks.module(index)[0]
            assert isinstance(head, nn.Linear)
            if self.scaling is not None:
                with torch.no_grad():
                    head.weight.div_(self.scaling.scale.to(head.weight))
                    head.bias.sub_(head.weight @ self.scaling.center.to(head.weight))
            heads.append(head)
        return heads


def linear_probe(
    train: Part,
    valid: Part,
    test: Part,
    *,
    loss: str = "gar",
    learning_rates: Iterable[float] = LEARNING_RATES,
    weight_decays: Iterable[float] = WEIGHT_DECAYS,
    parameters: Iterable[float] | None = None,
    seeds: Iterable[int] = SEEDS,
    epochs: int = 100,
    batch_size: int = 64,
    standardise: bool = False,
    metric: Metric = "mae",
    records: str | os.PathLike[str] | None = None,
    workers: int = 1,
    progress: bool | str = False,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Probe:
    """Train linear regressors on frozen features by SGD (momentum 0.9, cosine schedule), and choose one configuration.

    The configuration with the best mean validation score over seeds wins, each seed with its best epoch. The defaults are the
    paper's protocol for AgeDB. Features are those of images without augmentation, computed once; the script that the paper follows
    computes features of newly augmented images in every epoch. To approximate it, concatenate several augmented views of the
    training images.

    Args:
        train: features ``(rows, width)`` and targets of the training rows.
        valid: those of the validation rows, by which the configuration is chosen.
        test: those of the test rows, which are reported.
        loss: a name of :data:`gar.registry.LOSSES` whose only input is predictions.
        learning_rates: to try, > 0.
        weight_decays: to try, >= 0.
        parameters: of the loss, to try; None is the grid with which the loss is registered.
        seeds: of initial weights and of the order of rows; results are means over them.
        epochs: passes over the training rows.
        batch_size: rows of a mini-batch; the last one of an epoch may be smaller.
        standardise: scale features with statistics of the training rows. The paper does not.
        metric: by which configuration and epoch are chosen.
        records: a folder for finished work: the same call resumes where it was interrupted, a larger one trains what is new.
        workers: processes, -1 for one per core.
        progress: show a progress line on stderr; a text is its label.
        device: where to train.
        dtype: float32 or float64.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
        >>> parts = [(x[rows], x[rows].sum(1)) for rows in (slice(0, 64), slice(64, 80), slice(80, 96))]
        >>> found = linear_probe(*parts, loss="mse", learning_rates=(0.01, 0.1), weight_decays=(0.0,), seeds=(1, 2), epochs=40)
        >>> found.learning_rate, bool(found.best.mean("test", "r2") > 0.99), found.heads()[0]
        (0.1, True, Linear(in_features=8, out_features=1, bias=True))
    """
    check_choice(loss, tuple(LOSSES), "loss")
    if loss not in probe_losses():
        choices = ", ".join(map(repr, probe_losses()))
        raise InputError(f"loss={loss!r} trains features, but those of a linear probe are frozen; choose one of {choices}")
    data = probe_data(train, valid, test, standardise=standardise)
    rows = len(data.folds[0].train)
    if rows < whole_number(batch_size, "batch_size"):
        raise InputError(f"train has {rows} rows, fewer than batch_size={batch_size}; use batch_size={rows} or less")
    settings = TrainSettings(
        hidden_sizes=(),
        epochs=epochs,
        batch_size=batch_size,
        drop_last=False,
        schedule="cosine",
        milestones=(),
        loss=loss,
        monitor=metric,
        keep_best=metric,
    )
    grid = (LOSSES[loss].grid or None) if parameters is None else parameters
    models = Models.grid(seeds=seeds, learning_rates=learning_rates, weight_decays=weight_decays, parameters=grid)
    if not len(models):
        raise InputError("there is nothing to train; give at least one seed, learning rate, weight decay and parameter")
    label, folder = progress if isinstance(progress, str) else "", None if records is None else Path(records)
    context = RunContext(records=folder, workers=workers, progress=bool(progress), label=label)
    history = search(data, models, settings, context=context, device=device, dtype=dtype)
    scaling = data.folds[0].features
    assert scaling is None or isinstance(scaling, Scaling)
    best = select_configuration(history, models, metric)
    winner = models.take(best.model[:1])
    parameter = None if winner.parameter is None else float(winner.parameter[0])
    return Probe(loss, float(winner.learning_rate[0]), float(winner.weight_decay[0]), parameter, best, models, history, scaling)


def probe_data(train: Part, valid: Part, test: Part, *, standardise: bool = False) -> StackData:
    """Return three splits as one table with one fold, for :func:`gar.search.search`."""
    parts = [_checked(part, name) for part, name in ((train, "train"), (valid, "valid"), (test, "test"))]
    widths = {name: x.shape[1] for name, (x, _) in zip(("train", "valid", "test"), parts, strict=True)}
    if len(set(widths.values())) > 1:
        raise InputError(f"features have different widths: {widths}; take all of them from the same encoder")
    if len({y.shape[1] for _, y in parts}) > 1:
        raise InputError(f"labels have different numbers of targets: {[y.shape[1] for _, y in parts]}; give all splits the same")
    ends = np.cumsum([len(x) for x, _ in parts])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    x, y = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return StackData(x, y, [rows], scale_features=standardise)


def _checked(part: Part, name: str) -> tuple[Tensor, Tensor]:
    if len(part) != 2:
        raise InputError(f"{name} has {len(part)} parts; expected (features, labels)")
    x, y = (_tensor(values, name) for values in part)
    y = y.unsqueeze(-1) if y.ndim == 1 else y
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(
            f"{name} has features {tuple(x.shape)} and labels {tuple(y.shape)}; expected (rows, width) and one label per row"
        )
    if len(x) == 0:
        raise InputError(f"{name} has no rows; give it at least one")
    bad = int((~x.isfinite()).any(1).sum())
    if bad:
        raise InputError(f"{name} has {bad} rows with NaN or infinite features; remove these rows, or correct the encoder")
    return x, y


def _tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    array = np.array(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds values of type {array.dtype}; expected numbers")
    return torch.from_numpy(array)


def select_configuration(history: History, models: Models, metric: str = "mae") -> Selection:
    """Select the learning rate, decay and parameter with the best mean validation score over seeds, each with its best epoch.

    A configuration of which any seed failed in its first epoch is excluded. The selection holds one winner per seed.

    Args:
        history: of a search.
        models: those of the history, every configuration with the same seeds.
        metric: by which to choose. The paper names one alpha for all metrics of its probe; call this for each metric otherwise.
    """
    cost = -METRICS[metric].sign * history.of("valid", metric)
    cost = np.where(np.isfinite(cost), cost, np.inf)
    chosen = best_configuration(models, cost.min(1))
    if len(chosen) == 0:
        raise InputError(f"no configuration gave a finite validation {metric} with every seed; use smaller learning rates")
    chosen = chosen[np.argsort(models.seed[chosen], kind="stable")]
    epoch = cost[chosen].argmin(1)
    return Selection(metric, models.fold[chosen], chosen, epoch, history.metrics[chosen, epoch])
