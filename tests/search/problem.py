"""A small search, also as a process of its own that tests may kill: ``python -m tests.search.problem folder --workers 2``."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gar
from gar.search import RunContext, search as search_in_context
from gar.stack import History, Models, StackData, TrainSettings
from tests.stack.plain import make_data

SETTINGS = TrainSettings(
    hidden_sizes=(16, 9), epochs=4, batch_size=32, milestones=(2,), drop_last=False, keep_final=True, keep_best="mae"
)
LONG = TrainSettings(hidden_sizes=(16, 16), epochs=40, batch_size=8)


@dataclass(frozen=True, kw_only=True)
class StoppedContext(RunContext):
    """A context whose deadline passes when ``stop`` says so."""

    stop: Callable[[], bool]

    def is_late(self) -> bool:
        return self.stop()


def search(
    data: StackData,
    models: Models,
    settings: TrainSettings,
    *,
    stop: Callable[[], bool] | None = None,
    chunk_size: int | None = None,
    dtype: torch.dtype = torch.float32,
    **context: Any,
) -> History:
    """:func:`gar.search.search` with the fields of its context as arguments."""
    where = RunContext(**context) if stop is None else StoppedContext(stop=stop, **context)
    return search_in_context(data, models, settings, context=where, chunk_size=chunk_size, dtype=dtype)


def small_data() -> StackData:
    """Three folds, one of another size."""
    return make_data(rows=100, features=5, sizes=(70, 70, 75), scale_labels=True)


def small_models() -> Models:
    """36 models, of which those with the largest rate fail."""
    return Models.grid(folds=range(3), seeds=(1, 2), learning_rates=(1e30, 1e-1, 1e-2), parameters=(0.1, 1.0))


def many_models() -> Models:
    """100 models for a search that lasts a few seconds."""
    return Models.grid(folds=range(2), seeds=range(5), learning_rates=(1e-2, 1e-3), weight_decays=(0.0, 1e-3, 1e-2, 1e-1, 1.0))


def assert_same(one: History, other: History) -> None:
    """Bit for bit."""
    for name in ("metrics", "epochs_run", "failed_epoch", "best_epoch"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for weights, expected in ((one.best_weights, other.best_weights), (one.final_weights, other.final_weights)):
        assert (weights is None) == (expected is None)
        if weights is not None and expected is not None:
            np.testing.assert_array_equal(weights.numpy(), expected.numpy())


def record_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npz"))


def recorded_models(path: Path) -> list[tuple[float, ...]]:
    """Which models a record holds, read by numpy alone."""
    with np.load(path, allow_pickle=False) as file:
        return list(zip(*(file[name].tolist() for name in sorted(file.files) if name.startswith("model.")), strict=True))


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The long search as a process that leads a group of its own."""
    folders = [str(Path(gar.__file__).parents[1]), str(Path(__file__).parents[2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-m", "tests.search.problem", str(folder), *options]
    return subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--backend")
    parser.add_argument("--chunk-size", type=int)
    parser.add_argument("--epochs", type=int, default=LONG.epochs)
    parser.add_argument("--largest-file", type=int, help="bytes: stands for a disk that is full")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.largest_file is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (options.largest_file, options.largest_file))
    settings = TrainSettings(**{**vars(LONG), "epochs": options.epochs})
    chosen = {"workers": options.workers, "backend": options.backend, "chunk_size": options.chunk_size}
    search(small_data(), many_models(), settings, records=Path(options.folder), **chosen)


if __name__ == "__main__":
    main()
