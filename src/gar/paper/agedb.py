"""AgeDB (the last rows of the paper's first table): ResNet18 from scratch, and linear probes on an encoder of Rank-N-Contrast.

Its images are given by their owners only. Where they are in the data folder, this trains the paper's grids; else it says so.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gar.losses import registry
from gar.paper import published
from gar.paper.names import METHODS
from gar.paper.running import default_scratch
from gar.paper.studies import Study

if TYPE_CHECKING:
    from gar.vision import ImageTable

TASKS = {"agedb-scratch": "AgeDB, from scratch", "agedb-probe": "AgeDB, linear probe"}
METRICS = ("mae", "rmse", "pearson", "spearman", "r2")
RATES, DECAYS, SEEDS = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0), (1e-6, 1e-5, 1e-4, 1e-3), (1, 2, 3, 4, 5)


def agedb_studies(tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Study]:
    """What the paper has numbers for, or some of it."""
    scores = published.scores("table1")
    return [
        Study("agedb", task, method, partial(_scratch if task == "agedb-scratch" else _probe, method))
        for task in TASKS
        for method in METHODS
        if (task, method, "mae") in scores and (not tasks or task in tasks) and (not methods or method in methods)
    ]


def has_agedb() -> bool:
    """Whether the data folder has its images; the list of them alone is public."""
    from gar.datasets import data_home

    return (data_home() / "agedb" / "AgeDB").is_dir()


def _table() -> "ImageTable":
    from gar.datasets.home import located
    from gar.vision import check_images, read_images

    (file,) = located("agedb")
    table = read_images(file)
    check_images(table)
    return table


def _folder(name: str) -> Path:
    """Every epoch is kept here, so that what is interrupted goes on."""
    return default_scratch() / "agedb" / name


def _scratch(method: str) -> dict[str, Any]:
    from gar.vision import ImageSettings, Machine, train_study

    runs = [
        ImageSettings(
            loss=method,
            parameter=parameter,
            learning_rate=rate,
            weight_decay=decay,
            seed=seed,
            epochs=400,
            batch_size=256,
            standardise=False,
        )
        for parameter in registry[method].grid or (None,)
        for rate in RATES
        for decay in DECAYS
        for seed in SEEDS
    ]
    rows = train_study(_table(), runs, _folder("scratch"), machine=Machine(progress=True))
    return next(row for row in rows if row["chosen"])


def _probe(method: str) -> dict[str, Any]:
    from gar.vision import ImageSettings, Machine, image_features, linear_probe, train_images

    table = _table()
    encoder = ImageSettings(
        loss="rnc", parameter=2.0, epochs=400, batch_size=256, learning_rate=0.5, weight_decay=1e-4, standardise=False, seed=1
    )
    train_images(table, encoder, _folder("encoder"), machine=Machine(progress=True))
    parts = image_features(table, _folder("encoder") / "last.ckpt")
    best = linear_probe(*parts.values(), loss=method, seeds=SEEDS, workers=-1, progress=True).best
    return {"test": {metric: [best.mean("test", metric), best.std("test", metric)] for metric in METRICS}}
