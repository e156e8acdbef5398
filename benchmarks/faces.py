"""Ages from real faces (UTKFace, 72 x 72): ResNet18 from scratch and linear probes, GAR beside MAE, MSE and Huber.

    GAR_DATA_HOME=... python -m benchmarks.faces              # trains what has no record yet, the most important first
    GAR_DATA_HOME=... python -m benchmarks.faces --timing     # seconds of an epoch of each loss beside MAE's
    python -m benchmarks.faces --page                         # the tables of docs/faces.md, from the records

Runs that were stopped resume from their last epoch. Each loss has the same images, views, epochs and learning rates. Everything
is chosen by the absolute error on the validation images; test images are only reported. The faces are for research only: they are
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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gar.errors import InputError
from gar.files import write_whole
from gar.registry import LOSSES
from gar.vision import ImageSettings, ImageTable, Machine, image_features, linear_probe, read_images, train_images
from gar.vision.probe import Probe

RECORDS = Path(__file__).parent / "records" / "faces"
ARCHIVE = Path("utkface", "utkface72.tar.gz")
ROWS = {"train": 6000, "val": 1000, "test": 2000}
"""Images of each split, the first ones in a random order of the table; None is all of them."""
SHARED = ImageSettings(loss="mae", epochs=16, batch_size=64, size=48, augmentation="light")
MACHINE = Machine(accelerator="cpu", workers=0, precision="bf16-mixed")
METHODS: tuple[tuple[str, float | None], ...] = (
    *((("mae", None), ("gar", 1.0), ("mse", None), ("huber", None))),
    *((("gar", 0.1), ("gar", 10.0))),
)
"""Losses and their parameters, the most important first."""
RATES, SEEDS = (0.03, 0.1), (1, 2)
ENCODER = replace(SHARED, loss="rnc", parameter=2.0, learning_rate=0.1, views=2, seed=1)
PROBED = ("mae", "mse", "huber", "gar")


def faces(folder: Path) -> ImageTable:
    """Return the images of the experiment, unpacked below a scratch folder."""
    if not (folder / "utkface.csv").is_file():
        archive = Path(os.environ.get("GAR_DATA_HOME", ".")) / ARCHIVE
        if not archive.is_file():
            raise InputError(f"{archive} is not there; GAR_DATA_HOME names the folder that holds {ARCHIVE}")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    table = read_images(folder / "utkface.csv", target="age")
    order = np.random.default_rng(0).permutation(len(table.paths))
    rows = np.concatenate([order[table.splits[order] == split][:count] for split, count in ROWS.items()])
    paths = tuple(table.paths[row] for row in rows)
    return ImageTable(root=table.root, paths=paths, targets=table.targets[rows], splits=table.splits[rows])


def runs() -> Iterator[ImageSettings]:
    """Yield what to train next: every loss with the first learning rate, then with the others, then the best with more seeds."""
    for rate in RATES:
        for loss, parameter in METHODS:
            yield replace(SHARED, loss=loss, parameter=parameter, learning_rate=rate, seed=SEEDS[0])
    for seed in SEEDS[1:]:
        for loss, parameter in METHODS:
            tried = [one for one in read() if (one["loss"], one["parameter"], one["seed"]) == (loss, parameter, SEEDS[0])]
            best = min(tried, key=lambda one: one["val"]["mae"])
            yield replace(SHARED, loss=loss, parameter=parameter, learning_rate=best["learning_rate"], seed=seed)


def train(table: ImageTable, settings: ImageSettings, folder: Path) -> None:
    """Train one network and write its record; its checkpoints are deleted afterwards."""
    run = folder / settings.name
    result = train_images(table, settings, run, machine=MACHINE)
    with (run / "history.csv").open() as file:
        curve = [round(float(row["val_mae"]), 4) for row in csv.DictReader(file)]
    kept = {name: result["settings"][name] for name in ("loss", "parameter", "learning_rate", "seed")}
    scores = {name: result[name] for name in ("best_epoch", "val", "test")}
    write_record(settings.name, {**kept, **scores, "val_mae": curve})
    shutil.rmtree(run)


def probe(table: ImageTable, folder: Path) -> None:
    """Train the encoder by Rank-N-Contrast, and linear regressors on its features, the paper's grid of each loss as one stack."""
    run = folder / ENCODER.name
    train_images(table, ENCODER, run, machine=MACHINE)
    parts = image_features(table, run / "last.ckpt", size=ENCODER.size)
    for loss in PROBED:
        found = linear_probe(*parts.values(), loss=loss, records=folder / "probes")
        write_record(f"probe-{loss}", {"loss": loss, **_winner(found)})


def _winner(found: Probe) -> dict[str, Any]:
    """Return the chosen configuration of a probe, and the scores of all its seeds."""
    scores = {
        name: {metric: found.best.scores(split, metric).tolist() for metric in ("mae",)}
        for name, split in (("val", "valid"), ("test", "test"))
    }
    chosen = {name: getattr(found, name) for name in ("parameter", "learning_rate", "weight_decay")}
    return {**chosen, **scores}


def write_record(name: str, content: dict[str, Any]) -> None:
    RECORDS.mkdir(parents=True, exist_ok=True)
    write_whole(RECORDS / f"{name}.json", (json.dumps(content, indent=1) + "\n").encode())


def read(prefix: str = "") -> list[dict[str, Any]]:
    """Return the records of runs from scratch, or of those that begin with a prefix."""
    return [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*-seed*.json"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "gar-faces", help="scratch folder of faces and runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = faces(arguments.out)
    for settings in runs():
        if not (RECORDS / f"{settings.name}.json").is_file():
            start = time.perf_counter()
            train(table, settings, arguments.out / "runs")
            print(f"{settings.name}: {time.perf_counter() - start:.0f} s", flush=True)
    probe(table, arguments.out / "runs")


if __name__ == "__main__":
    main()
