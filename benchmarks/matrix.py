"""GAR along columns and rows of a matrix, by the paper's protocol for tables: responses of cell lines to drugs (GDSC release 5).

A fifth of the rows is the test set, the others are five folds. Every method has the paper's network, optimiser, epochs and learning
rates, and three values of alpha, or three seeds where it has none: 15 models a fold, a third of the paper's, since one of its three
decays is tried. For each score the model and the epoch that are best on the validation rows by that score are tested.
`python -m benchmarks.pairs "GDSC release 5"` records it.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gar.estimators.presets import PAPER_PRESET
from gar.heads import FiveHeadLoss, FiveHeads
from gar.metrics import along_rows_and_columns
from gar.registry import LOSSES
from gar.search import one_thread
from gar.stack import Models, StackData, StackedMLP, train
from gar_reproduction.protocol import SEED, SEEDS, table_data, table_settings

TASK, BATCH, DECAY = "gdsc", 256, 1e-4
FOLDS, RATES = range(5), PAPER_PRESET["learning_rates"]
SCORES = ("column", "row", "mae")

OPTIONS: dict[str, dict[str, Any]] = {
    "GAR by columns": {},
    "GAR by columns, each joined": {"average": "losses"},
    "GAR by rows": {"pairs": "targets"},
    "GAR by rows, each joined": {"pairs": "targets", "average": "losses"},
    "GAR by both": {"pairs": "both"},
    "GAR by both, each joined": {"pairs": "both", "average": "losses"},
}


class Scored(NamedTuple):
    """Scores ``(columns, rows, MAE)`` on validation and test rows after every epoch, ``(models, epochs, 2, 3)``, and the fold of
    every model."""

    values: np.ndarray
    fold: np.ndarray

    def selected(self) -> dict[str, list[float]]:
        """Return for each score, fold by fold, the test score of the model and epoch that are best on the validation rows by it."""
        found: dict[str, list[float]] = {}
        for number, name in enumerate(SCORES):
            sign = -1.0 if name == "mae" else 1.0
            found[name] = []
            for fold in sorted(set(self.fold.tolist())):
                valid, test = np.moveaxis(self.values[self.fold == fold, :, :, number], -1, 0)
                best = np.nanargmax(sign * valid)  # NaN after a model failed
                found[name].append(float(test.flat[best]))
        return found


def methods() -> dict[str, Callable[[], Scored]]:
    """Return what is compared, by name."""
    data = table_data(TASK, features="none")  # the paper left features of such a table as they were
    found: dict[str, Callable[[], Scored]] = {title: partial(stacked, data, loss, {}) for title, loss in _PLAIN.items()}
    for title, options in OPTIONS.items():
        found[title] = partial(stacked, data, "gar", options)
    return found | {"five heads": partial(five_heads, data)}


_PLAIN = {"MAE": "mae", "MSE": "mse"}


def stacked(data: StackData, loss: str, options: dict[str, Any]) -> Scored:
    """Train the grid of a loss as one stack, and score every model after every epoch."""
    alphas = LOSSES[loss].grid
    seeds = (SEED,) if alphas else SEEDS
    models = Models.grid(folds=FOLDS, seeds=seeds, learning_rates=RATES, weight_decays=(DECAY,), parameters=alphas or None)
    settings = table_settings(TASK, loss, loss_options=options)
    values = np.full((len(models), settings.epochs, 2, len(SCORES)), np.nan)

    def observe(epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        of_fold = models.fold[indices]
        for fold in set(of_fold.tolist()):
            members = np.flatnonzero(of_fold == fold)
            some = networks.take(members.tolist())
            for part, (x, y) in enumerate(_held_out(data, fold)):
                values[indices[members], epoch, part] = _scores(some(x).predictions, y)

    with one_thread():
        train(data, models, settings, observe=observe)
    return Scored(values, models.fold)


def _held_out(data: StackData, fold: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield features and labels of the validation and of the test rows."""
    for rows in (data.folds[fold].valid, data.folds[fold].test):
        yield data.x[torch.from_numpy(rows)].float(), data.y[torch.from_numpy(rows)].float()


def _scores(pred: Tensor, target: Tensor) -> np.ndarray:
    """Return the scores of predictions ``(..., rows, drugs)``."""
    target = target.expand_as(pred)
    found = along_rows_and_columns(pred, target)
    errors = (pred - target).abs().mean((-2, -1))
    return torch.stack([found["pearson_of_columns"], found["pearson_of_rows"], errors], -1).double().numpy()


def five_heads(data: StackData) -> Scored:
    """Train the same grid of networks whose last layer are five heads, one after the other."""
    grid = list(itertools.product(FOLDS, SEEDS, RATES))
    values = np.stack([_train_heads(data, *cell) for cell in grid])
    return Scored(values, np.array([fold for fold, *_ in grid]))


def _train_heads(data: StackData, fold: int, seed: int, rate: float) -> np.ndarray:
    """Return the scores of one network after every epoch, ``(epochs, 2, 3)``."""
    torch.manual_seed(seed)
    settings, random = table_settings(TASK, "mae"), np.random.default_rng([seed, fold])
    sizes, targets = (data.inputs, *settings.hidden_sizes), data.y.shape[1]
    layers = [layer for pair in itertools.pairwise(sizes) for layer in (nn.Linear(*pair), nn.ELU())]
    net, loss = nn.Sequential(*layers, FiveHeads(sizes[-1], targets)), FiveHeadLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=settings.momentum, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, list(settings.milestones))
    rows, held_out = data.folds[fold].train, list(_held_out(data, fold))
    found = np.full((settings.epochs, 2, len(SCORES)), np.nan)
    for epoch in range(settings.epochs):
        order = torch.from_numpy(random.permutation(rows))
        for batch in order[: len(order) // BATCH * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss(net.train()(data.x[batch].float()), data.y[batch].float()).backward()
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            predicted = [net.eval()(x).prediction for x, _ in held_out]
        if not all(bool(one.isfinite().all()) for one in predicted):
            break
        found[epoch] = [_scores(one, y) for one, (_, y) in zip(predicted, held_out, strict=True)]
    return found
