"""How long the paper's linear probe takes, all of it: six losses, 30 configurations, their parameters, five seeds.

    python -m benchmarks.probe            # 100 epochs, as in the paper
    python -m benchmarks.probe --quick    # 5 epochs, scaled up to 100
    python -m benchmarks.probe --cpu      # in one process, and seconds of its processor time: for a busy machine

Features are random, of AgeDB's shape: 12208 training, 2140 validation and 2140 test rows of 512 non-negative features, as an
encoder returns them. The time depends on their shape, not on their values; the errors in the last column only show that something
was learnt. The baseline is plain PyTorch: ``nn.Linear``, ``torch.optim.SGD``, batches by indexing a tensor (a data
loader is slower), and the same metrics after every epoch. Eight of its epochs are timed before each stack and eight after it, on
one thread, and their median is multiplied by the number of runs; on several cores it could be that many times as fast.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from gar.metrics import Evaluator
from gar.registry import LOSSES, PAPER_LOSSES
from gar.vision.defaults import probe_losses
from gar.vision.probe import Part, linear_probe

SIZES, WIDTH, EPOCHS, BATCH = (12208, 2140, 2140), 512, 100, 64


def features() -> tuple[Part, Part, Part]:
    """Return features that determine the label up to noise, and labels between 0 and 101 years as in AgeDB."""
    generator = np.random.default_rng(0)
    weight = generator.normal(size=(WIDTH, 1))

    def part(rows: int) -> Part:
        x = np.maximum(generator.normal(size=(rows, WIDTH)), 0.0)
        y = np.clip(50.0 + x @ weight + generator.normal(scale=6.0, size=(rows, 1)), 0.0, 101.0)
        return x.astype(np.float32), y.astype(np.float32)

    one, two, three = map(part, SIZES)
    return one, two, three


class PlainRun:
    """One regressor in plain PyTorch, trained an epoch at a time."""

    def __init__(self, splits: tuple[Part, Part, Part], loss: str) -> None:
        (self.x, self.y), *self.others = [(torch.as_tensor(x), torch.as_tensor(y)) for x, y in splits]
        self.head = nn.Linear(WIDTH, 1)
        self.loss = LOSSES[loss].build()
        self.optimizer = torch.optim.SGD(self.head.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, EPOCHS)
        self.evaluators = [Evaluator(y) for _, y in self.others]

    def epoch(self) -> list[Tensor]:
        for rows in torch.randperm(len(self.x)).split(BATCH):
            self.optimizer.zero_grad()
            self.loss(self.head(self.x[rows]), self.y[rows]).backward()
            self.optimizer.step()
        self.schedule.step()
        with torch.no_grad():
            return [measure(self.head(x)) for measure, (x, _) in zip(self.evaluators, self.others, strict=True)]


def seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 epochs, scaled up to 100")
    parser.add_argument("--cpu", action="store_true", help="one process, and its processor time")
    options = parser.parse_args()
    workers, clock = (1, time.process_time) if options.cpu else (os.cpu_count() or 1, time.perf_counter)
    epochs, splits = 5 if options.quick else EPOCHS, features()
    torch.set_num_threads(1)
    linear_probe(*splits, loss="mae", epochs=1, workers=workers)  # processes are started, and libraries loaded
    print(f"{'loss':12s}{'models':>8s}{'stack (min)':>14s}{'one by one (min)':>18s}{'ratio':>8s}{'test MAE':>16s}")
    total = np.zeros(3)
    for loss in (name for name in PAPER_LOSSES if name in probe_losses()):
        run = PlainRun(splits, loss)
        baseline = [seconds(run.epoch, clock) for _ in range(8)]
        start = clock()
        found = linear_probe(*splits, loss=loss, epochs=epochs, batch_size=BATCH, workers=workers)
        stack = (clock() - start) * EPOCHS / epochs / 60
        baseline += [seconds(run.epoch, clock) for _ in range(8)]
        plain = statistics.median(baseline) * EPOCHS * len(found.models) / 60
        score = f"{found.best.mean('test', 'mae'):.3f} ({found.best.std('test', 'mae'):.3f})"
        print(f"{_row(LOSSES[loss].title, len(found.models), stack, plain)}{score:>16s}", flush=True)
        total += len(found.models), stack, plain
    print(f"{_row('all', *total)}   {workers} process{'es' if workers > 1 else ''}")


def _row(name: str, models: float, stack: float, plain: float) -> str:
    return f"{name:12s}{models:8.0f}{stack:14.2f}{plain:18.1f}{plain / stack:7.0f}x"


if __name__ == "__main__":
    main()
