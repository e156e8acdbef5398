"""AgeDB (the last rows of the paper's first table): ResNet18 from scratch, and linear probes on an encoder of Rank-N-Contrast.

Its images are given by their owners only. Where they are in the data folder, this trains the paper's grids; else it says so.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gar.errors import InputError
from gar.losses import registry
from gar.metrics import METRICS
from gar_reproduction import published
from gar_reproduction.agedb_images import (
    BATCH_SIZE,
    DECAYS,
    ENCODER_DECAY,
    ENCODER_RATE,
    EPOCHS,
    RATES,
    SEEDS,
    TEMPERATURE,
    agedb_table,
)
from gar_reproduction.names import METHODS
from gar_reproduction.running import default_scratch
from gar_reproduction.studies import Study

if TYPE_CHECKING:
    from gar.vision import ImageSettings, ImageTable

TASKS = {"agedb-scratch": "AgeDB, from scratch", "agedb-probe": "AgeDB, linear probe"}


def agedb_studies(tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Study]:
    """What the paper has numbers for, or some of it."""
    scores = published.scores("table1")
    return [
        Study("agedb", task, method, partial(_scratch if task == "agedb-scratch" else _probe, method), lacking_images)
        for task in TASKS
        for method in METHODS
        if (task, method, "mae") in scores and (not tasks or task in tasks) and (not methods or method in methods)
    ]


def lacking_images() -> str | None:
    """What has to be got first; the list of images alone is public."""
    try:
        folder = agedb_table().root / "AgeDB"
    except InputError as error:
        return str(error)
    return None if folder.is_dir() else f"the images of AgeDB are not in {folder}; 'gar data info agedb' says who gives them"


def _checked_table() -> "ImageTable":
    from gar.vision import check_images

    table = agedb_table()
    check_images(table)
    return table


def _folder(name: str) -> Path:
    """Every epoch is kept here, so that what is interrupted goes on."""
    return default_scratch() / "agedb" / name


def _settings(loss: str, parameter: float | None, rate: float, decay: float, seed: int) -> "ImageSettings":
    """Those of one run; length, batch and scale of ages are the same in all runs of the paper."""
    from gar.vision import ImageSettings

    return ImageSettings(
        loss=loss,
        parameter=parameter,
        learning_rate=rate,
        weight_decay=decay,
        seed=seed,
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        standardise=False,
    )


def _scratch(method: str) -> dict[str, Any]:
    from gar.vision import Machine, train_study

    runs = [
        _settings(method, parameter, rate, decay, seed)
        for parameter in registry[method].grid or (None,)
        for rate in RATES
        for decay in DECAYS
        for seed in SEEDS
    ]
    rows = train_study(_checked_table(), runs, _folder("scratch"), machine=Machine(progress=True))
    return next(row for row in rows if row["chosen"])


def _probe(method: str) -> dict[str, Any]:
    from gar.vision import Machine, image_features, linear_probe, train_images

    table = _checked_table()
    encoder = _settings("rnc", TEMPERATURE, ENCODER_RATE, ENCODER_DECAY, SEEDS[0])
    train_images(table, encoder, _folder("encoder"), machine=Machine(progress=True))
    parts = image_features(table, _folder("encoder") / "last.ckpt")
    best = linear_probe(*parts.values(), loss=method, workers=-1, progress=True).best
    return {"test": {metric: [best.mean("test", metric), best.std("test", metric)] for metric in METRICS}}
