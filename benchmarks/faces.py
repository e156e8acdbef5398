"""Ages from real faces (UTKFace, 72 x 72): ResNet18 from scratch and linear probes, GAR beside MAE, MSE and Huber.

    GAR_DATA_HOME=... python -m benchmarks.faces                              # trains what has no record yet
    GAR_DATA_HOME=... python -m benchmarks.faces --images 6000 --epochs 30    # a larger study, with records of its own
    GAR_DATA_HOME=... python -m benchmarks.faces --timing                     # a step of each loss, in turns
    python -m benchmarks.faces_page                                           # the tables of docs/faces.md, from the records

A short pilot chooses the learning rate of each loss. Then all are trained with one seed, then come the probes, then the next
seed; a run that was stopped resumes from its last epoch. All losses have the same images, views, epochs and batches. Everything is
chosen by the absolute error on the validation images; test images are only reported. The faces are for research only: they are
unpacked into a scratch folder, and nothing that is committed holds one.
"""

import argparse
import csv
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import best_of_turns
from benchmarks.vision import step
from gar.errors import InputError
from gar.files import write_whole
from gar.registry import METRICS
from gar.vision import ImageSettings, ImageTable, Machine, image_features, linear_probe, read_images, train_images
from gar.vision.defaults import LEARNING_RATES
from gar.vision.views import training_batches

RECORDS = Path(__file__).parent / "records" / "faces"
TIMING = RECORDS / "timing.json"
ARCHIVE = Path("utkface", "utkface72.tar.gz")
IMAGES, EPOCHS, VALIDATION, TEST = 4000, 12, 1000, 4707
"""Training images, epochs, validation images, and test images, which are all."""
SHARED = ImageSettings(loss="mae", batch_size=64, size=48, augmentation="light")
MACHINE = Machine(accelerator="cpu", workers=0, precision="bf16-mixed")
METHODS = (("mae", None), ("gar", 1.0), ("mse", None), ("huber", None), ("gar", 0.1), ("gar", 10.0))
"""Losses and their parameters, the most important first."""
SEEDS = (1, 2)
PILOT_EPOCHS, PILOT, RATES = 4, METHODS[:4], (0.003, 0.01)
"""The pilot has GAR with one alpha only."""
ENCODER = replace(SHARED, loss="rnc", parameter=2.0, learning_rate=0.03, views=2, seed=SEEDS[0])
PROBED, PROBE_RATES = ("mae", "mse", "huber", "gar"), (1e-4, 3e-4, 1e-3, 3e-3, *LEARNING_RATES)
"""Losses of the probes, and learning rates: the paper's and smaller ones, because MSE diverges with all of the paper's."""
PARTS = (("val", "valid"), ("test", "test"))
"""Splits as records and as probes name them."""


def faces(folder: Path, images: int) -> ImageTable:
    """Return a random part of the table, always the same, and all of its test images, unpacked below a scratch folder."""
    if not (folder / "utkface.csv").is_file():
        archive = Path(os.environ.get("GAR_DATA_HOME", ".")) / ARCHIVE
        if not archive.is_file():
            raise InputError(f"{archive} is not there; GAR_DATA_HOME must name the folder that holds {ARCHIVE}")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    table = read_images(folder / "utkface.csv", target="age")
    order = np.random.default_rng(0).permutation(len(table.paths))
    counts = {"train": images, "val": VALIDATION, "test": TEST}
    rows = np.concatenate([order[table.splits[order] == split][:count] for split, count in counts.items()])
    paths = tuple(table.paths[row] for row in rows)
    return ImageTable(root=table.root, paths=paths, targets=table.targets[rows], splits=table.splits[rows])


def pilot() -> list[ImageSettings]:
    """Return the runs of the pilot: every loss with each learning rate, for a few epochs."""
    shared = replace(SHARED, epochs=PILOT_EPOCHS, seed=SEEDS[0])
    runs = [(*method, rate) for method in PILOT for rate in RATES]
    return [replace(shared, loss=loss, parameter=parameter, learning_rate=rate) for loss, parameter, rate in runs]


def best_rates(images: int) -> dict[str, float]:
    """Return the learning rate of each loss with the least error on the validation images after the pilot."""
    found = [one for one in read(folder(images)) if np.isfinite(one["val"]["mae"])]
    worst_first = sorted(found, key=lambda one: one["val"]["mae"], reverse=True)
    return {one["loss"]: one["learning_rate"] for one in worst_first}


def regressors(images: int, epochs: int, seed: int) -> list[ImageSettings]:
    """Return the runs from scratch with one seed, each loss with its learning rate."""
    shared, rates = replace(SHARED, epochs=epochs, seed=seed), best_rates(images)
    return [replace(shared, loss=loss, parameter=parameter, learning_rate=rates[loss]) for loss, parameter in METHODS]


def train(table: ImageTable, settings: ImageSettings, run: Path) -> dict[str, Any]:
    """Train one network and return its record."""
    result = train_images(table, settings, run, machine=MACHINE)
    with (run / "history.csv").open() as file:
        curve = [float(row["val_mae"]) for row in csv.DictReader(file)]
    described = {name: getattr(settings, name) for name in ("loss", "parameter", "learning_rate", "seed")}
    return {**described, **{name: result[name] for name in ("best_epoch", "val", "test")}, "curve": curve}


def probe(table: ImageTable, settings: ImageSettings, loss: str, out: Path) -> dict[str, Any]:
    """Train linear regressors on an encoder's features, all configurations and seeds as one stack, and return their record."""
    train_images(table, settings, out / settings.name, machine=MACHINE)
    parts = image_features(table, out / settings.name / "last.ckpt", size=settings.size)
    shared: dict[str, Any] = {"learning_rates": PROBE_RATES, "batch_size": settings.batch_size, "records": out / "probes"}
    found = linear_probe(*parts.values(), loss=loss, **shared)
    best = found.best
    scores = {split: {metric: [best.mean(name, metric), best.std(name, metric)] for metric in METRICS} for split, name in PARTS}
    chosen = {name: getattr(found, name) for name in ("parameter", "learning_rate", "weight_decay")}
    return {"loss": loss, **chosen, **scores}


def study(images: int, epochs: int, scratch: Path) -> None:
    """Train everything of a study that has no record yet, and write its records; checkpoints are deleted when they have one."""
    table, trials, records = faces(scratch, images), folder(images), folder(images, epochs)
    out = scratch / records.name
    for one in pilot():
        record(trials / f"{one.name}.json", partial(train, table, one, scratch / trials.name / one.name))
    encoder = replace(ENCODER, epochs=epochs)
    for seed in SEEDS:
        for one in regressors(images, epochs, seed):
            record(records / f"{one.name}.json", partial(train, table, one, out / one.name))
            shutil.rmtree(out / one.name, ignore_errors=True)
        for loss in PROBED:  # with the first seed alone; the probes have seeds of their own
            record(records / f"probe-{loss}.json", partial(probe, table, encoder, loss, out))


def record(path: Path, job: Callable[[], dict[str, Any]]) -> None:
    """Do a job and write its record, if there is none."""
    if path.is_file():
        return
    start = time.perf_counter()
    content = json.dumps(job(), indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.encode())
    print(f"{path.parent.name}/{path.stem}: {time.perf_counter() - start:.0f} s", flush=True)


def folder(images: int, epochs: int | None = None) -> Path:
    """Return the folder of a study's records, or of its pilot's."""
    return RECORDS / f"{images}-images-{'pilot' if epochs is None else f'{epochs}-epochs'}"


def read(records: Path, pattern: str = "*-seed*") -> list[dict[str, Any]]:
    """Return the records of a folder: its runs from scratch, or others."""
    return [json.loads(path.read_text()) for path in sorted(records.glob(f"{pattern}.json"))]


def timing(scratch: Path) -> None:
    """Measure a step of training with each loss in turns, and write the record."""
    table, losses = faces(scratch, IMAGES), ("mae", "mse", "huber", "gar", "rnc")
    calls = []
    for loss in losses:
        views = 2 if loss == "rnc" else 1
        batches = training_batches(table, size=SHARED.size, batch_size=SHARED.batch_size, seed=1, views=views, kind="light")
        calls.append(step(repeat(next(iter(batches))), half=True, loss=loss))
    seconds = dict(zip(losses, best_of_turns(calls, turns=15, budget=0.5), strict=True))
    write_whole(TIMING, (json.dumps(seconds, indent=1) + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=IMAGES, help="training images")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--timing", action="store_true", help="measure a step of each loss")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "gar-faces", help="folder of faces and runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.timing:
        timing(arguments.scratch)
        return
    study(arguments.images, arguments.epochs, arguments.scratch)


if __name__ == "__main__":
    main()
