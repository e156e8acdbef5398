"""The reference that a stack must equal: one model at a time, plain ``nn.Sequential``, ``torch.optim`` and autograd."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gar.group_metrics import within_groups
from gar.metrics import all_metrics
from gar.registry import LOSSES, METRICS
from gar.stack import Models, StackData, TrainSettings, batch_sizes, row_orders
from gar.stack.network import ACTIVATIONS, GATE_GAIN

DOUBLE = torch.empty(0, dtype=torch.float64)


def make_data(
    rows: int = 60, features: int = 3, targets: int = 1, *, sizes: tuple[int, ...] = (40, 40), seed: int = 0, **options: Any
) -> StackData:
    """A smooth table with noise, distinct labels, and folds that train on ``sizes`` rows."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features))
    y = np.sin(x @ generator.normal(size=(features, targets))) + x[:, :1] + 0.1 * generator.normal(size=(rows, targets))
    folds = []
    for size in sizes:
        order = generator.permutation(rows)
        half = size + (rows - size) // 2
        folds.append((order[:size], order[size:half], order[half:]))
    return StackData(x, y, folds, **options)


class Gates(nn.Module):
    """A learned factor for every input, one at first."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.zeros(inputs, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * (1.0 + GATE_GAIN * self.numbers)


def plain_network(sizes: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64, **more: Any) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = [Gates(sizes[0])] if more.get("gates") else []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, dtype=dtype), ACTIVATIONS[more.get("activation", "elu")]()]
    return nn.Sequential(*layers[:-1])


class PlainRun(NamedTuple):
    metrics: np.ndarray
    network: nn.Sequential


class PlainTraining:
    """Trains model ``index`` of ``models`` as anyone would."""

    def __init__(self, data: StackData, models: Models, index: int, settings: TrainSettings) -> None:
        self.data, self.settings = data, settings
        self.fold_number, self.seed = int(models.fold[index]), int(models.seed[index])
        self.fold = data.folds[self.fold_number]
        sizes = (data.inputs, *settings.hidden_sizes, data.y.shape[1])
        self.network = plain_network(sizes, self.seed, activation=settings.activation, gates=settings.feature_gates)
        self.parameter = None if models.parameter is None else float(models.parameter[index])
        rate, decay = float(models.learning_rate[index]), float(models.weight_decay[index])
        self.optimizer = self._optimizer(rate, decay)
        self.scheduler = self._scheduler()

    def _optimizer(self, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        parameters, s = self.network.parameters(), self.settings
        if s.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=lr, momentum=s.momentum, weight_decay=weight_decay)
        kind = torch.optim.Adam if s.optimizer == "adam" else torch.optim.AdamW
        return kind(parameters, lr=lr, betas=s.betas, eps=s.eps, weight_decay=weight_decay)

    def _scheduler(self) -> torch.optim.lr_scheduler.LRScheduler:
        if self.settings.schedule == "multistep":
            return torch.optim.lr_scheduler.MultiStepLR(self.optimizer, list(self.settings.milestones), gamma=0.1)
        if self.settings.schedule == "cosine":
            return torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, self.settings.epochs)
        return torch.optim.lr_scheduler.ConstantLR(self.optimizer, factor=1.0)

    def run(self) -> PlainRun:
        x, y = self.data.scaled_rows(self.fold, self.fold.train, DOUBLE)
        weight = self.data.sample_weight
        weight = None if weight is None else weight[torch.from_numpy(self.fold.train)].double()
        groups = self.data.groups_of(self.fold.train)
        codes = None if groups is None else np.unique(groups.numpy(), return_inverse=True)[1]
        history, orders = [], row_orders(self.seed, self.fold_number, len(x), codes)
        for epoch in range(self.settings.epochs):
            self._epoch(epoch, x, y, weight, groups, torch.from_numpy(next(orders)))
            self.scheduler.step()
            history.append([self._metrics(self.fold.valid), self._metrics(self.fold.test)])
        return PlainRun(np.array(history), self.network)

    def _epoch(self, epoch: int, x: Tensor, y: Tensor, weight: Tensor | None, groups: Tensor | None, order: Tensor) -> None:
        loss, inputs = self._loss(epoch)
        s, start = self.settings, 0
        for size in batch_sizes(len(x), s.batch_size, s.drop_last, even=s.even_batches):
            rows = order[start : start + size]
            features = self.network[:-1](x[rows])
            given = {"pred": self.network[-1](features), "features": features}
            first, *rest = [given[name] for name in inputs]
            self.optimizer.zero_grad()
            pairs = {} if groups is None else {"groups": groups[rows]}
            loss(first, y[rows], *rest, sample_weight=None if weight is None else weight[rows], **pairs).backward()
            self.optimizer.step()
            start += size

    def _loss(self, epoch: int) -> tuple[nn.Module, tuple[str, ...]]:
        policy = "omit" if self.data.has_missing_labels else "raise"
        if epoch >= self.settings.first_phase_epochs:
            spec = LOSSES[self.settings.finetune_loss]
            return spec.loss(nan_policy=policy), spec.inputs
        spec = self.settings.spec
        tuned = {} if self.parameter is None or spec.parameter is None else {spec.parameter: self.parameter}
        return spec.loss(nan_policy=policy, **tuned, **self.settings.loss_options), spec.inputs

    def _metrics(self, rows: np.ndarray) -> np.ndarray:
        if len(rows) == 0:
            return np.full(len(METRICS), np.nan)
        with torch.no_grad():
            pred = self.network(self.data.scaled_rows(self.fold, rows, DOUBLE)[0])
        if self.fold.labels is not None:
            pred = self.fold.labels.undo(pred)
        weight = self.data.sample_weight
        weight = None if weight is None else weight[torch.from_numpy(rows)]
        target, groups = self.data.y[torch.from_numpy(rows)], self.data.groups_of(rows)
        values = all_metrics(pred, target, weight=weight)
        if groups is not None:
            within = within_groups(pred, target, groups, weight=weight)
            values[2], values[3] = within["pearson"], within["spearman"]
        return values.numpy()
