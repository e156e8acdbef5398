"""Do the networks for images learn, and how fast? Generated dials, one core of a CPU.

    python -m benchmarks.vision            # 15 epochs on 1000 dials in views of 32 x 32: some minutes
    python -m benchmarks.vision --quick    # one epoch on 100 images, to see that it runs
    python -m benchmarks.vision --speed    # what an image of a training step costs, with views of 64 x 64

ResNet18 from scratch with MAE and with GAR, and Rank-N-Contrast followed by a linear probe with both: errors on the 200 test
images, in minutes, and the share of variance explained. Finished runs are kept in ``--out``; the same command resumes.

``--speed`` compares with the paper's protocol: two views of an image that is decoded for each batch. All settings take turns, and
the best turn of each counts.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from unittest import mock

import torch
from torch.utils.data import DataLoader

from benchmarks.timing import best_of_turns
from gar.files import write_whole
from gar.vision import (
    ImagePretrainer,
    ImageRegressor,
    ImageSettings,
    ImageTable,
    Machine,
    image_features,
    linear_probe,
    read_images,
    train_images,
    write_clocks,
)
from gar.vision.views import CACHE_BYTES, ImageBatch, training_batches

LOSSES = ("mae", "gar")
METRICS = ("mae", "pearson", "r2")
SIZE = 32
SPEED_RECORD = Path(__file__).parent / "records" / "vision.json"
CPU = Machine(accelerator="cpu", workers=0)
BATCH, SPEED_SIZE = 64, 64
SPEEDS = (
    ("two views, decoded for each batch", 2, "paper", 0, False),
    ("two views", 2, "paper", CACHE_BYTES, False),
    ("one view", 1, "paper", CACHE_BYTES, False),
    ("one light view", 1, "light", CACHE_BYTES, False),
    ("one light view, bfloat16", 1, "light", CACHE_BYTES, True),
)
"""Name, views of an image, kind of augmentation, size of the cache, whether in half precision."""


def row(name: str, scores: Mapping[str, float], seconds: float) -> str:
    cells = [f"{scores[metric]:.3f}" if metric in scores else "" for metric in METRICS]
    return f"| {name} | {' | '.join(cells)} | {seconds:.0f} s |"


def scratch(table: ImageTable, settings: ImageSettings, folder: Path) -> str:
    start = time.process_time()
    test = train_images(table, settings, folder / settings.name, machine=CPU)["test"]
    return row(f"{settings.loss.upper()} from scratch", test, time.process_time() - start)


def probes(table: ImageTable, settings: ImageSettings, folder: Path) -> list[str]:
    start = time.process_time()
    run = folder / settings.name
    train_images(table, settings, run, machine=CPU)
    lines = [row("the encoder, by Rank-N-Contrast", {}, time.process_time() - start)]
    parts = image_features(table, run / "last.ckpt", size=SIZE)
    for loss in LOSSES:
        start = time.process_time()
        best = linear_probe(parts["train"], parts["val"], parts["test"], loss=loss, seeds=(1,)).best
        scores = {metric: best.mean("test", metric) for metric in METRICS}
        lines.append(row(f"{loss.upper()} on its features", scores, time.process_time() - start))
    return lines


def speed(table: ImageTable) -> None:
    """Measure milliseconds for an image, for its views alone and for a whole step of training with GAR, and write the record."""
    calls: list[Callable[[], object]] = []
    for _, views, kind, cache, half in SPEEDS:
        with mock.patch("gar.vision.views.CACHE_BYTES", cache):
            batches = endless(training_batches(table, size=SPEED_SIZE, batch_size=BATCH, seed=1, views=views, kind=kind))
        calls += [partial(next, batches), step(batches, half=half)]
    best = [round(1e3 * seconds / BATCH, 3) for seconds in best_of_turns(calls, turns=5, budget=1.0)]
    found = {name: pair for (name, *_), pair in zip(SPEEDS, zip(best[::2], best[1::2], strict=True), strict=True)}
    write_whole(SPEED_RECORD, (json.dumps(found, indent=1) + "\n").encode())


def speed_table() -> str:
    """Return the milliseconds of the record, and how those of a step compare with the first."""
    found: dict[str, tuple[float, float]] = json.loads(SPEED_RECORD.read_text())
    (_, first), *_ = found.values()
    rows = [f"| {name} | {views:.2f} | {whole:.2f} | {whole / first:.2f} |" for name, (views, whole) in found.items()]
    return "\n".join(["| setting | views (ms) | step (ms) | of the first |", "|---|---|---|---|", *rows])


def endless(batches: DataLoader[ImageBatch]) -> Iterator[ImageBatch]:
    while True:
        yield from batches


def step(batches: Iterator[ImageBatch], *, half: bool, loss: str = "gar") -> Callable[[], object]:
    """Return one step of training, in half precision as the trainer does it."""
    module = (ImagePretrainer if loss == "rnc" else ImageRegressor)(loss=loss, seed=1)
    if half:
        module.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = module.configure_optimizers()

    def train() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            value = module.batch_loss(next(batches))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--speed", action="store_true", help="what an image of a training step costs")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--out", type=Path, help="folder of images and runs [default: a temporary one]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        count, epochs = (100, 1) if options.quick else (1000, options.epochs)
        table = read_images(write_clocks(folder / "clocks", count=count), target="minutes")
        if options.speed:
            speed(table)
            print(speed_table())
            return
        print("| network | MAE | Pearson | R2 | seconds of one core |\n|---|---|---|---|---|")
        for loss in LOSSES:
            print(scratch(table, ImageSettings(loss=loss, epochs=epochs, size=SIZE, views=2), folder), flush=True)
        for line in probes(table, ImageSettings(loss="rnc", epochs=epochs, size=SIZE), folder):
            print(line)


if __name__ == "__main__":
    main()
