"""Linear probes: how much of a number is in frozen features, told by a linear regressor on them.

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

from gar.errors import InputError, whole_number
from gar.losses import registry
from gar.metrics import LARGER_IS_BETTER
from gar.search import RunContext, Selection, search
from gar.search.selection import best_configuration
from gar.stack import History, Models, Scaling, StackData, TrainSettings
from gar.stack.settings import Metric
from gar.validation import check_choice
from gar.vision.defaults import LEARNING_RATES, SEEDS, WEIGHT_DECAYS

PAPER_LOSSES = ("mae", "mse", "huber", "focal_mae", "focal_mse", "gar")
"""The methods of the paper's linear probe. It leaves out RankSim, RNC and ConR: they act on features, which are frozen here."""

PROBE_LOSSES = tuple(name for name, spec in registry.items() if spec.inputs == ("pred",))
"""All losses that a linear probe can be trained with: those of predictions alone."""

Part = tuple[ArrayLike | Tensor, ArrayLike | Tensor]
"""Features ``(rows, width)`` and labels ``(rows,)`` or ``(rows, targets)`` of one split."""


@dataclass(frozen=True)
class Probe:
    """What a linear probe found."""

    loss: str
    models: Models
    history: History
    best: Selection
    """The winners, one per seed, all of one configuration; ``best.mean("test", "mae")`` and ``best.std("test", "mae")`` are what
    the paper reports."""
    scaling: Scaling | None = None
    """Of features, if they were standardised."""

    @property
    def learning_rate(self) -> float:
        """Of the winning configuration."""
        return float(self.models.learning_rate[self.best.model[0]])

    @property
    def weight_decay(self) -> float:
        """Of the winning configuration."""
        return float(self.models.weight_decay[self.best.model[0]])

    @property
    def parameter(self) -> float | None:
        """Of the loss, in the winning configuration; None for a loss without one."""
        return None if self.models.parameter is None else float(self.models.parameter[self.best.model[0]])

    def heads(self) -> list[nn.Linear]:
        """The winners with the weights of their best epoch, one per seed; they take features as they were given."""
        networks = self.history.best
        return [_on_raw_features(networks.module(place)[0], self.scaling) for place in self.best.model.tolist()]


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

    The configuration is the one that is best on the validation rows on average over seeds, each seed with its best epoch. The
    defaults are the paper's protocol for AgeDB. Features are those of images as they are, computed once; the script that the paper
    follows computes features of newly augmented images in every epoch. To come near to it, pass several augmented views of the
    training images one below the other.

    Args:
        train: features ``(rows, width)`` and labels of the rows to learn from.
        valid: those that choose.
        test: those that are reported.
        loss: one of :data:`PROBE_LOSSES`.
        learning_rates: to try, > 0.
        weight_decays: to try, >= 0.
        parameters: of the loss, to try; None is the paper's grid, which the registry of losses holds.
        seeds: of initial weights and of the order of rows; results are means over them.
        epochs: passes over the training rows.
        batch_size: rows of a mini-batch; the last one of an epoch may be smaller.
        standardise: scale features with statistics of the training rows. The paper does not.
        metric: chooses configuration and epoch.
        records: a folder for what is finished: the same call goes on where it was interrupted, a larger one trains what is new.
        workers: processes, -1 for one per core.
        progress: show a line on stderr; a text stands before it.
        device: where to train.
        dtype: float32 or float64.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
        >>> parts = [(x[rows], x[rows].sum(1)) for rows in (slice(0, 64), slice(64, 80), slice(80, 96))]
        >>> found = linear_probe(*parts, loss="mse", learning_rates=(0.01, 0.1), weight_decays=(0.0,), seeds=(1, 2), epochs=40)
        >>> found.learning_rate, bool(found.best.mean("test", "r2") > 0.99), found.heads()[0]
        (0.1, True, Linear(in_features=8, out_features=1, bias=True))
    """
    _check_loss(loss)
    data = probe_data(train, valid, test, standardise=standardise)
    rows = len(data.folds[0].train)
    if rows < whole_number(batch_size, "batch_size"):
        raise InputError(f"train has {rows} rows, fewer than batch_size={batch_size}; use batch_size={rows} or less")
    settings = _settings(loss, epochs, batch_size, metric)
    tuned = (registry[loss].grid or None) if parameters is None else parameters
    models = Models.grid(seeds=seeds, learning_rates=learning_rates, weight_decays=weight_decays, parameters=tuned)
    if not len(models):
        raise InputError("there is nothing to train; give at least one seed, learning rate, weight decay and parameter")
    context = RunContext(
        records=None if records is None else Path(records),
        workers=workers,
        progress=bool(progress),
        label=progress if isinstance(progress, str) else "",
    )
    history = search(data, models, settings, context=context, device=device, dtype=dtype)
    scaling = data.folds[0].features
    assert scaling is None or isinstance(scaling, Scaling)
    return Probe(loss, models, history, select_configuration(history, models, metric), scaling)


def _settings(loss: str, epochs: int, batch_size: int, metric: Metric) -> TrainSettings:
    return TrainSettings(
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


def probe_data(train: Part, valid: Part, test: Part, *, standardise: bool = False) -> StackData:
    """Three splits as one table with one fold, for :func:`gar.search.search`."""
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


def select_configuration(history: History, models: Models, metric: str = "mae") -> Selection:
    """The learning rate, decay and parameter that are best on the validation rows on average over seeds, each seed with its best
    epoch; a configuration of which any seed failed in its first epoch is out. The selection holds one winner per seed.

    Args:
        history: of a search.
        models: those of the history, every configuration with the same seeds.
        metric: that chooses. The paper names one alpha for all metrics of its probe; for a choice per metric, call this for each.
    """
    cost = history.of("valid", metric) * (-1.0 if LARGER_IS_BETTER[metric] else 1.0)
    cost = np.where(np.isfinite(cost), cost, np.inf)
    chosen = best_configuration(models, cost.min(1))
    if len(chosen) == 0:
        raise InputError(f"no configuration gave a finite validation {metric} with every seed; use smaller learning rates")
    chosen = chosen[np.argsort(models.seed[chosen], kind="stable")]
    epoch = cost[chosen].argmin(1)
    return Selection(metric, models.fold[chosen], chosen, epoch, history.metrics[chosen, epoch])


def _check_loss(loss: str) -> None:
    check_choice(loss, tuple(registry), "loss")
    if loss not in PROBE_LOSSES:
        choices = ", ".join(map(repr, PROBE_LOSSES))
        raise InputError(f"loss={loss!r} trains features, but those of a linear probe are frozen; choose one of {choices}")


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
        raise InputError(f"{name} has {bad} rows with NaN or infinite features; leave these rows out, or mend the encoder")
    return x, y


def _tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    array = np.array(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds values of type {array.dtype}; expected numbers")
    return torch.from_numpy(array)


def _on_raw_features(head: nn.Module, scaling: Scaling | None) -> nn.Linear:
    """The same predictions without the scaling before."""
    assert isinstance(head, nn.Linear)
    if scaling is not None:
        with torch.no_grad():
            head.weight.div_(scaling.scale.to(head.weight))
            head.bias.sub_(head.weight @ scaling.center.to(head.weight))
    return head
