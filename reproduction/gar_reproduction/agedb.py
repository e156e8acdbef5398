"""AgeDB (the last rows of the paper's first table): ResNet18 from scratch, and linear probes on an encoder of Rank-N-Contrast.

Only the owners of the images give them away. Where they are in the data folder, the studies train the paper's grids; elsewhere
they say what is missing. This module is light to import: the command line shows its numbers.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gar.errors import InputError
from gar.registry import LOSSES, METRICS, PAPER_LOSSES
from gar.vision import defaults
from gar_reproduction import published
from gar_reproduction.data.files import located
from gar_reproduction.folders import Folder, scratch_folder
from gar_reproduction.studies import Study

if TYPE_CHECKING:
    from gar.vision import ImageSettings, ImageTable

TASKS = {"agedb-scratch": "AgeDB, from scratch", "agedb-probe": "AgeDB, linear probe"}
RATES, DECAYS, SEEDS = defaults.LEARNING_RATES, defaults.WEIGHT_DECAYS[1:], defaults.SEEDS
EPOCHS, BATCH_SIZE = 400, 256
"""Settings of a network, from scratch or by Rank-N-Contrast."""
ENCODER_RATE, ENCODER_DECAY, TEMPERATURE = 0.5, 1e-4, 2.0
"""Settings of Rank-N-Contrast: the temperature is the paper's, the others are the defaults of its published script."""


def agedb_table(home: Folder = None) -> "ImageTable":
    """Return the list of images in the data folder, without opening any of them."""
    from gar.vision.images import read_images

    (file,) = located("agedb", home=home)
    return read_images(file, target="age")


def agedb_studies(tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Study]:
    """Return the studies for which the paper has numbers, all or some of them."""
    scores = published.scores("table1")
    return [
        Study("agedb", task, method, partial(_scratch if task == "agedb-scratch" else _probe, method), missing_images)
        for task in TASKS
        for method in PAPER_LOSSES
        if (task, method, "mae") in scores and (not tasks or task in tasks) and (not methods or method in methods)
    ]


def missing_images() -> str | None:
    """Return what is missing, the list of images or the images themselves; None if both are there."""
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
    """Return the folder of checkpoints, from which an interrupted training continues."""
    return scratch_folder() / "agedb" / name


def _settings(loss: str, parameter: float | None, rate: float, decay: float, seed: int) -> "ImageSettings":
    """Return the settings of one run; epochs, batch size and scale of ages are the same in all runs of the paper."""
    from gar.vision import ImageSettings

    shared: dict[str, Any] = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "views": defaults.PAPER_VIEWS, "standardise": False}
    return ImageSettings(loss=loss, parameter=parameter, learning_rate=rate, weight_decay=decay, seed=seed, **shared)


def _scratch(method: str) -> dict[str, Any]:
    from gar.vision import Machine, train_study

    runs = [_settings(method, *one) for one in product(LOSSES[method].grid or (None,), RATES, DECAYS, SEEDS)]
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
