"""How much faster a stack is than training one model after another, and how close it comes to the machine's arithmetic rate.

    python -m benchmarks.stack            # all ratios
    python -m benchmarks.stack --quick    # fewer epochs

Both sides run on one thread, in turns, so that a busy machine slows both. The baseline is plain PyTorch: ``nn.Sequential``,
``torch.optim.SGD``, ``DataLoader``, the loss as its equations stand in the paper, and metrics by numpy and scipy after every
epoch; once with the loader in the same process, and once with a worker process for each, which is how the authors ran it. A sample
of its runs is timed, and the time multiplied by the number of runs. Real tables are taken from the folder that GAR_DATA_HOME
names; without it, tables of random numbers of the same size stand in, which changes no timing. Losses on features, of a stack whose
models share their labels, are measured alone: value and gradient, against the same loss called model by model.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy import stats
from sklearn.model_selection import KFold
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.timing import best_of_turns
from gar.registry import LOSSES
from gar.search import RunContext, search
from gar.stack import Models, StackData, TrainSettings, train
from gar.stack.chunking import models_in_chunk
from gar.stack.objective import Labels, Objective, first_of_each_label
from gar.stack.passes import ModelSpan

RATES, DECAYS, ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), (1e-3, 1e-4, 1e-5), (0.1, 1.0, 10.0)
SMALL = TrainSettings(hidden_sizes=(16, 32, 16, 8))
WIDE = TrainSettings(hidden_sizes=(128, 256, 128, 64))


def concrete() -> StackData:
    file = _file("CCS.npz")
    if file is None:
        return _folds(*_random(1030, 8), 206)
    return _folds(np.concatenate([file["teX"], file["trX"]]), np.concatenate([file["teY"], file["trY"]]), len(file["teX"]))


def parkinson() -> StackData:
    file = _file("parkinson.npz")
    if file is None:
        return _folds(*_random(5875, 19), 1175)
    return _folds(file["X"][file["ids"]], file["y"][file["ids"], 1:], int(0.2 * len(file["ids"])))


def _file(name: str) -> dict[str, np.ndarray] | None:
    home = os.environ.get("GAR_DATA_HOME")
    if not home:
        return None
    with np.load(Path(home) / "authors" / name) as file:
        return dict(file)


def _random(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, features))
    return x, x.sum(1, keepdims=True) + generator.normal(size=(rows, 1))


def _folds(x: np.ndarray, y: np.ndarray, test: int) -> StackData:
    """Return the paper's split: the first rows test, the rest in five unshuffled folds."""
    x = (x - x.mean(0)) / x.std(0)
    parts = [(a + test, b + test, np.arange(test)) for a, b in KFold(5).split(np.arange(len(x) - test))]
    return StackData(x, y, parts)


def plain_gar(pred: Tensor, target: Tensor, alpha: float) -> Tensor:
    """Return the loss as a reader of the paper would write it."""
    error = pred - target
    f, y = pred - pred.mean(), target - target.mean()
    correlation = (f * y).mean() / ((f.square().mean() + 1e-7).sqrt() * (y.square().mean() + 1e-7).sqrt())
    parts = torch.stack([error.abs().mean(), (error - error.mean()).square().mean(), 1.0 - correlation]) + 1e-7
    return alpha * (torch.logsumexp(parts.log() / alpha, 0) - np.log(3.0))


class PlainRun:
    """One model in plain PyTorch, trained an epoch at a time."""

    def __init__(self, data: StackData, settings: TrainSettings, workers: int) -> None:
        fold = data.folds[0]
        torch.manual_seed(123)
        sizes = (data.x.shape[1], *settings.hidden_sizes, data.y.shape[1])
        layers = [layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.ELU())]
        self.network = nn.Sequential(*layers[:-1])
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-2, momentum=settings.momentum, weight_decay=1e-4)
        self.schedule = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, list(settings.milestones))
        tables = [TensorDataset(data.x[rows].float(), data.y[rows].float()) for rows in (fold.train, fold.valid, fold.test)]
        self.train = DataLoader(tables[0], settings.batch_size, shuffle=True, drop_last=settings.drop_last, num_workers=workers)
        self.others = [DataLoader(table, settings.batch_size, num_workers=workers) for table in tables[1:]]

    def epoch(self) -> list[tuple[float, ...]]:
        self.network.train()
        for x, y in self.train:
            self.optimizer.zero_grad()
            plain_gar(self.network(x), y, 1.0).backward()
            self.optimizer.step()
        self.schedule.step()
        return [self.evaluate(loader) for loader in self.others]

    @torch.no_grad()
    def evaluate(self, loader: "DataLoader[tuple[Tensor, ...]]") -> tuple[float, ...]:
        self.network.eval()
        pairs = [(self.network(x).numpy(), y.numpy()) for x, y in loader]
        f, y = (np.concatenate(side)[:, 0] for side in zip(*pairs, strict=True))
        error = f - y
        values = np.abs(error).mean(), np.sqrt(np.square(error).mean()), stats.pearsonr(f, y)[0], stats.spearmanr(f, y)[0]
        return tuple(map(float, values))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _seconds_of_epoch(run: PlainRun) -> float:
    """Return the best of five: after the other side's turn the first ones are slow."""
    return min(seconds(run.epoch) for _ in range(5))


class Timing(NamedTuple):
    """Seconds of all 225 runs over 100 epochs, or billions of operations a second; and the median of the ratios of each turn."""

    baseline: float
    stacked: float
    ratio: float


def against_plain(data: StackData, settings: TrainSettings, *, epochs: int, rounds: int) -> list[Timing]:
    """Time a stack against the baseline, without and with loader workers; and a search on all cores against that without."""
    models = Models.grid(folds=range(5), learning_rates=RATES, weight_decays=DECAYS, parameters=ALPHAS)
    short = replace(settings, epochs=epochs, milestones=(epochs // 2, 3 * epochs // 4))
    sample = models if settings == SMALL else models.take(np.arange(0, len(models), 5))
    train(data, models.take([0, 1, 2]), replace(short, epochs=1))
    baselines = [[PlainRun(data, settings, workers) for _ in range(3)] for workers in (0, 1)]
    baseline_times: list[list[float]] = [[], []]
    stacked, searched = [], []

    def scaled(work: Callable[[], object]) -> float:
        return 100 * seconds(work) / epochs * len(models) / len(sample)

    for _ in range(rounds + 1):
        for runs, times in zip(baselines, baseline_times, strict=True):
            times.append(100 * statistics.mean(_seconds_of_epoch(run) for run in runs) * len(models))
        stacked.append(scaled(lambda: train(data, sample, short)))
        searched.append(scaled(lambda: search(data, sample, short, context=RunContext(workers=-1))))
    baseline, with_workers = (times[1:] for times in baseline_times)  # the first turn warms up, and starts the processes
    return [_timing(baseline, stacked[1:]), _timing(with_workers, stacked[1:]), _timing(baseline, searched[1:])]


def _timing(baseline: list[float], stacked: list[float]) -> Timing:
    ratios = [a / b for a, b in zip(baseline, stacked, strict=True)]
    return Timing(statistics.median(baseline), statistics.median(stacked), statistics.median(ratios))


def arithmetic_rate(data: StackData, settings: TrainSettings, *, rounds: int) -> Timing:
    """Compare the arithmetic rate of training with evaluation to that of a matrix product of 2048."""
    layout = settings.layout(data)
    models = Models.grid(
        learning_rates=np.geomspace(1e-4, 1e-2, models_in_chunk(layout, settings.batch_size, settings, torch.float32))
    )
    products = sum(n * m for n, m in pairwise(layout.sizes))
    first = layout.sizes[0] * layout.sizes[1]
    fold = data.folds[0]
    learnt = len(fold.train) // settings.batch_size * settings.batch_size * (3 * products - first)
    work = 2.0 * len(models) * (learnt + (len(fold.valid) + len(fold.test)) * products)
    one, other = torch.randn(2048, 2048), torch.randn(2048, 2048)
    short = replace(settings, epochs=1)
    mine, theirs = [], []
    for _ in range(rounds + 1):
        theirs.append(2 * 2048**3 / min(seconds(lambda: torch.mm(one, other)) for _ in range(3)) / 1e9)
        mine.append(work / seconds(lambda: train(data, models, short)) / 1e9)
    timing = _timing(theirs[1:], mine[1:])
    return timing._replace(ratio=100 / timing.ratio)


def features_step(name: str, data: StackData, width: int, *, rounds: int) -> Timing:
    """Time value and gradient of a loss on features, in milliseconds per model, against one call after another.

    45 models have one batch of 256 rows, whose labels they share.
    """
    spec, models = LOSSES[name], 45
    target = data.y[data.folds[0].train[:256]].float()
    predictions, features = torch.randn(models, 256, target.shape[1]), torch.randn(models, width, 256).mT
    parameter = torch.tensor(spec.grid).repeat(models // len(spec.grid))
    objective = Objective(name, parameter, (ModelSpan(0, models, 0),), device=target.device)
    distinct = first_of_each_label(target)[None] if spec.needs_distinct_labels else None
    labels = Labels(target[None], None, distinct)
    assert spec.parameter is not None
    losses = [spec.loss(**{spec.parameter: value}, nan_policy="propagate") for value in parameter.tolist()]

    def one_by_one() -> None:
        for loss, pred, columns in zip(losses, predictions, features, strict=True):
            leaves = {"pred": pred.detach().requires_grad_(), "features": columns.detach().requires_grad_()}
            first, *rest = (leaves[name] for name in spec.inputs)
            loss(first, target, *rest).backward()

    times = [best_of_turns([one_by_one, lambda: objective(predictions, features, labels)], turns=3) for _ in range(rounds)]
    return _timing(*([1e3 / models * turn[side] for turn in times] for side in range(2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer epochs and rounds")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rounds = 3 if quick else 7
    print(f"{'one thread, float32':60s}{'baseline':>10s}{'stacked':>10s}{'ratio':>9s}{'must':>8s}{'aim':>8s}")
    for name, data, settings, epochs, must, aim in (
        ("Concrete, 225 GAR runs, 100 epochs (s)", concrete(), SMALL, 10 if quick else 100, "50x", "200x"),
        ("Parkinson, 225 runs of the wide network (s)", parkinson(), WIDE, 1, "5x", "15x"),
    ):
        plain, with_workers, on_all_cores = against_plain(data, settings, epochs=epochs, rounds=rounds)
        _line(name, plain, "x", must, aim)
        _line("  the baseline's loaders with a worker, as the authors ran it", with_workers, "x", "", "")
        _line(f"  by gar.search on all {os.cpu_count()} cores", on_all_cores, "x", "", "")
    rate = arithmetic_rate(parkinson(), WIDE, rounds=rounds)
    _line("Parkinson, arithmetic rate against mm(2048) (GF/s)", rate, "%", "35%", "60%")
    for data, width in ((concrete(), 8), (parkinson(), 64)):
        for name in ("rnc", "ranksim", "conr"):
            timing = features_step(name, data, width, rounds=rounds)
            _line(f"a step of {LOSSES[name].title}, batch 256, width {width}, per model (ms)", timing, "x", "", "")


def _line(name: str, timing: Timing, unit: str, must: str, aim: str) -> None:
    print(f"{name:60s}{timing.baseline:10.1f}{timing.stacked:10.2f}{timing.ratio:8.1f}{unit}{must:>8s}{aim:>8s}", flush=True)


if __name__ == "__main__":
    main()
