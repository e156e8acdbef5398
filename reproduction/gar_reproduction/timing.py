"""The running-time experiment: seconds per epoch of each method, one model at a time as in the paper, and as one of a stack."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gar import __version__
from gar.registry import LOSSES, PAPER_LOSSES
from gar.search import one_thread
from gar.stack import Models, StackData, StackedMLP, row_orders, train
from gar_reproduction.protocol import SEED, table_data, table_settings
from gar_reproduction.provenance import machine
from gar_reproduction.studies import Study

TASKS = ("concrete", "wine", "parkinson-total", "superconductivity", "gdsc")
"""The tasks of the paper's table, with GDSC release 5 in place of IC50."""
EPOCHS, LEAST_EPOCHS, LONGEST = 100, 5, 60.0
"""One model alone is timed for EPOCHS epochs, or as many as fit into LONGEST seconds, but at least LEAST_EPOCHS."""
STACK_EPOCHS, STACK_SIZE = 4, 45
"""A stack has as many models as a method has in one fold."""
_RATE = 1e-5
"""Small enough that no model diverges, which would end its training early."""


Times = Mapping[tuple[str, str], Mapping[str, Any]]
"""Recorded times by task and method."""


def timings(tasks: Sequence[str] = (), methods: Sequence[str] = (), *, epochs: int = EPOCHS) -> list[Study]:
    """Return the studies of running time, all or some of them."""
    return [
        Study("runtime", task, method, partial(_measure, task, method, epochs))
        for task in TASKS
        for method in PAPER_LOSSES
        if (not tasks or task in tasks) and (not methods or method in methods)
    ]


def read_times(records: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return all recorded times by task and method."""
    found = {(study.task, study.variant): study.read(records) for study in timings()}
    return {key: record for key, record in found.items() if record is not None}


def _measure(task: str, method: str, epochs: int) -> dict[str, Any]:
    data = table_data(task, features="none" if task == "gdsc" else "whole")
    with one_thread():
        return {"machine": _machine(), **_alone(task, method, data, epochs), **_in_a_stack(task, method, data)}


def _machine() -> dict[str, Any]:
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {**machine(), "threads": 1, "load": load, "gar": __version__}


def _alone(task: str, method: str, data: StackData, epochs: int) -> dict[str, Any]:
    """Time one network with autograd and ``torch.optim``, batch by batch.

    Evaluation is not timed; the loss is timed with its backward pass through the network, as in the paper.
    """
    fold, settings = data.folds[0], table_settings(task, method)
    x, y = data.scaled_rows(fold, fold.train, torch.empty(0))
    network = StackedMLP.initial((data.inputs, *settings.hidden_sizes, data.y.shape[1]), seeds=[SEED]).module(0)
    loss, spec = LOSSES[method].build(), LOSSES[method]
    optimizer = torch.optim.SGD(network.parameters(), lr=_RATE, momentum=settings.momentum, weight_decay=1e-4)
    whole: list[float] = []
    in_loss: list[float] = []
    begin = time.perf_counter()
    orders = row_orders(SEED, 0, len(x))
    while len(whole) < epochs + 1 and (len(whole) <= LEAST_EPOCHS or time.perf_counter() - begin < LONGEST):
        start, spent = time.perf_counter(), 0.0
        for rows in torch.split(torch.from_numpy(next(orders)), settings.batch_size):
            if len(rows) == settings.batch_size:
                spent += _step(network, loss, spec.inputs, optimizer, x[rows], y[rows])
        whole.append(time.perf_counter() - start)
        in_loss.append(spent)
    return {"epochs": len(whole) - 1, "all": _statistics(whole[1:]), "loss": _statistics(in_loss[1:])}  # the first one warms up


def _step(
    network: nn.Sequential, loss: nn.Module, inputs: Sequence[str], optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor
) -> float:
    """Train on one batch, and return the seconds of loss and backward pass."""
    optimizer.zero_grad()
    features = network[:-1](x)
    given = {"pred": network[-1](features), "features": features}
    start = time.perf_counter()
    first, *rest = (given[name] for name in inputs)
    loss(first, y, *rest).backward()
    spent = time.perf_counter() - start
    optimizer.step()
    return spent


def _in_a_stack(task: str, method: str, data: StackData) -> dict[str, Any]:
    """Time a stack: seconds per epoch and model, including evaluation on validation and test rows."""
    spec = LOSSES[method]
    pretrain_epochs = STACK_EPOCHS if "pred" not in spec.inputs else None  # of features alone: no second phase
    settings = table_settings(task, method, epochs=STACK_EPOCHS, pretrain_epochs=pretrain_epochs)
    parameter = np.resize(spec.grid, STACK_SIZE) if spec.grid else None
    models = Models(seed=np.full(STACK_SIZE, SEED), learning_rate=_RATE, parameter=parameter)
    start = time.perf_counter()
    train(data, models, settings)
    return {"stack_models": STACK_SIZE, "stack": (time.perf_counter() - start) / STACK_SIZE / STACK_EPOCHS}


def _statistics(values: Sequence[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values)), "median": float(np.median(values))}
