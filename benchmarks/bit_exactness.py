"""What the tricks behind bit-exactness cost: training with each of them, against training with that one switched off.

    python -m benchmarks.bit_exactness            # all ratios
    python -m benchmarks.bit_exactness --quick    # fewer turns

Both sides run on one thread, in turns; processor time is counted, which a busy machine hardly changes, and the best turn of each. A
trick is measured where it acts: on batches that are not a multiple of 32, on a layer with one input, on linear models. The last
column says what happens without the trick on this machine: whether the same models, trained in chunks of another size, still give
the same bits.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import print_table
from gar.stack import History, Models, StackData, TrainSettings, train

CHUNKS = (None, 1, 5, 7)
EPOCHS = 10


def one_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """Multiply as many rows as there are models, without groups of :data:`gar.stack.passes.MODEL_STEP`."""
    torch.mm(left.squeeze(1), right, out=out.squeeze(1))


class Trick(NamedTuple):
    """A trick, how to switch it off, and settings on which it acts."""

    name: str
    off: Mapping[str, Any]
    settings: TrainSettings
    features: int


SMALL = TrainSettings(hidden_sizes=(16, 32, 16, 8), epochs=EPOCHS, batch_size=100, drop_last=False, keep_final=True)
LINEAR = TrainSettings(hidden_sizes=(), epochs=EPOCHS, batch_size=256, keep_final=True)
TRICKS = (
    Trick("whole columns, batches of 100 rows", {"gar.stack.chunking.COLUMN_STEP": 1}, SMALL, 8),
    Trick(
        "transposed gradients, 1 feature",
        {"gar.stack.passes._is_transposed": lambda outputs, inputs: False},
        TrainSettings(hidden_sizes=(100, 100), epochs=EPOCHS, keep_final=True),
        1,
    ),
    Trick("groups of 16 models, linear", {"gar.stack.passes._shared_product": one_product}, LINEAR, 64),
    Trick("matrices aligned to 16 numbers", {"gar.stack.network.ALIGNMENT": 1}, SMALL, 7),
)


def make_data(features: int) -> StackData:
    """Return random rows in the size of the paper's smallest table, as three folds."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1030, features))
    y = x.sum(1, keepdims=True) + generator.normal(size=(1030, 1))
    orders = [generator.permutation(1030) for _ in range(3)]
    return StackData(x, y, [(order[:659], order[659:824], order[824:]) for order in orders])


MODELS = Models.grid(folds=range(3), seeds=(1, 2), learning_rates=(1e-2, 1e-3, 1e-4), parameters=(0.1, 1.0, 10.0))


def training(trick: Trick, data: StackData, off: Mapping[str, Any], chunk: int | None = None) -> Callable[[], History]:
    """Return a call that trains all models with these attributes replaced."""

    def run() -> History:
        with ExitStack() as stack:
            for name, value in off.items():
                stack.enter_context(patch(name, value))
            return train(data, MODELS, trick.settings, chunk_size=chunk)

    return run


def best_processor_seconds(calls: Sequence[Callable[[], object]], turns: int) -> list[float]:
    """Return the least processor time of each call."""
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for index, call in enumerate(calls):
            start = time.process_time()
            call()
            best[index] = min(best[index], time.process_time() - start)
    return best


def is_independent_of_chunks(trick: Trick, data: StackData, off: Mapping[str, Any]) -> bool:
    """Return True if chunks of any size give the same metrics and weights, bit for bit."""
    first, *others = (training(trick, data, off, chunk)() for chunk in CHUNKS)
    return all(np.array_equal(first.metrics, other.metrics) and _same_weights(first, other) for other in others)


def _same_weights(one: History, other: History) -> bool:
    return torch.equal(one.final.weights, other.final.weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    turns = 5 if parser.parse_args().quick else 40
    torch.set_num_threads(1)
    rows = []
    for trick in TRICKS:
        data = make_data(trick.features)
        assert is_independent_of_chunks(trick, data, {}), trick.name
        on, off = best_processor_seconds([training(trick, data, {}), training(trick, data, trick.off)], turns)
        without = "same bits" if is_independent_of_chunks(trick, data, trick.off) else "other bits"
        rows.append((trick.name, f"{1e3 * on:.0f} ms", f"{on / off:.2f}x", without))
    print_table(rows, ("trick", "with it", "against without", "other chunks without it"))


if __name__ == "__main__":
    main()
