"""From a table of images to trained networks: runs that resume after an interruption, and studies of several runs."""

import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gar.errors import InputError
from gar.files import UNFINISHED, write_whole
from gar.registry import LOSSES
from gar.validation import check_choice
from gar.vision.checkpoint import BEST, LAST, AtomicCheckpointIO, EpochCheckpoint
from gar.vision.defaults import AUGMENTATIONS
from gar.vision.images import SPLITS, ImageTable
from gar.vision.lightning_import import lightning
from gar.vision.modules import ImageModule, ImagePretrainer, ImageRegressor
from gar.vision.views import evaluation_batches, training_batches

SETTINGS, RESULT, RESULTS = "settings.json", "result.json", "results.json"


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """What a run trains; two runs with equal settings and tables have equal results.

    Args:
        loss: a name of :data:`gar.registry.LOSSES`; one of features alone, such as ``"rnc"``, trains an encoder without a head.
        parameter: of the loss; None is its default.
        epochs: passes over the training images.
        batch_size: images of a batch, over all processes.
        learning_rate: at the start of the cosine schedule.
        weight_decay: L2.
        size: side of the views, in pixels.
        views: augmented views of an image in a batch, of which each is a row. None is one, and two for losses of features, which
            compare views. The paper always has two.
        augmentation: ``"paper"`` (crops of 20 to 100 % of the area, other colours) or ``"light"`` (crops of 60 to 100 %, the same
            colours); both flip.
        standardise: train on standardised targets. The paper does not.
        seed: of initial weights, order and views.
    """

    loss: str = "gar"
    parameter: float | None = None
    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 0.02
    weight_decay: float = 1e-4
    size: int = 224
    views: int | None = None
    augmentation: str = "paper"
    standardise: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.loss, tuple(LOSSES), "loss")
        check_choice(self.augmentation, AUGMENTATIONS, "augmentation")
        LOSSES[self.loss].build(self.parameter)
        for name, least in (("epochs", 1), ("batch_size", 1), ("size", 16), ("views", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name}={value} is too small; expected {least} or more")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise InputError(f"learning_rate={self.learning_rate} is no positive number")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise InputError(f"weight_decay={self.weight_decay} is neither 0 nor a positive number")

    @property
    def views_per_image(self) -> int:
        """The number of views of an image in a batch, also where ``views`` is None."""
        return self.views if self.views is not None else 2 if "features" in LOSSES[self.loss].inputs else 1

    @property
    def name(self) -> str:
        """The name of the run's folder, made of what the runs of a study differ in."""
        parameter = "" if self.parameter is None else f"-{LOSSES[self.loss].parameter}{self.parameter:g}"
        return f"{self.loss}{parameter}-lr{self.learning_rate:g}-decay{self.weight_decay:g}-seed{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a run is trained, which does not belong to its settings.

    Args:
        accelerator: ``"auto"``, ``"cpu"``, ``"gpu"`` or another of Lightning's.
        devices: number of devices; each is a process (DDP) with its share of the batch.
        precision: ``"32-true"``, ``"16-mixed"``, ``"bf16-mixed"`` or another of Lightning's; None is half precision (AMP) on a GPU
            and single precision elsewhere.
        workers: processes that prepare images; None is up to eight with a GPU, and this process alone without.
        progress: show a bar on a terminal, or write a line for every epoch where the output is not one.
    """

    accelerator: str = "auto"
    devices: int = 1
    precision: str | None = None
    workers: int | None = None
    progress: bool = False

    @property
    def has_gpu(self) -> bool:
        return self.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()

    @property
    def loader_workers(self) -> int:
        return self.workers if self.workers is not None else min(8, os.cpu_count() or 1) if self.has_gpu else 0

    def trainer(self, epochs: int, folder: Path) -> tuple[lightning.Trainer, EpochCheckpoint]:
        """Return a trainer, and the callback that writes its checkpoints."""
        has_bar = self.progress and sys.stdout.isatty()
        checkpoint = EpochCheckpoint(folder, stream=sys.stderr if self.progress and not has_bar else None)
        half = "bf16-mixed" if self.has_gpu and torch.cuda.is_bf16_supported() else "16-mixed"
        precision: Any = self.precision or (half if self.has_gpu else "32-true")
        trainer = lightning.Trainer(
            accelerator=self.accelerator,
            devices=self.devices,
            strategy="ddp" if self.devices > 1 else "auto",
            precision=precision,
            max_epochs=epochs,
            callbacks=[checkpoint],
            plugins=[AtomicCheckpointIO()],
            logger=_tensorboard(folder),
            enable_checkpointing=False,  # Lightning's own
            enable_progress_bar=has_bar,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
        )
        return trainer, checkpoint


def _tensorboard(folder: Path) -> Any:
    """Return a logger for TensorBoard if it is installed; the history is written in any case."""
    if find_spec("tensorboard") is None:
        return False
    from lightning.pytorch.loggers import TensorBoardLogger

    return TensorBoardLogger(folder, name=None, version="tensorboard")


def train_study(
    table: ImageTable,
    runs: Sequence[ImageSettings],
    folder: str | os.PathLike[str],
    *,
    machine: Machine | None = None,
    callback: Callable[[ImageSettings, dict[str, Any] | None], None] | None = None,
) -> list[dict[str, Any]]:
    """Train all runs, each in its own folder below ``folder``, and summarise them in ``results.json``; finished runs are only read.

    Args:
        table: of images.
        runs: what to train.
        folder: of the study; it is created if needed.
        machine: where to train.
        callback: called by the first process before a run with its settings and None, and after it with its result.

    Returns:
        For every configuration its settings without the seed, its ``seeds``, the names of their ``runs``, mean and standard
        deviation (divided by n) of metrics on ``val`` and ``test``, and whether it is ``chosen``: the best of its loss on the
        validation images.
    """
    results, out, machine = [], Path(folder), machine or Machine()
    notify = callback if callback is not None and is_global_zero() else lambda settings, result: None
    for settings in runs:
        check_batches(settings, table, machine)  # before the first is trained
    for settings in runs:
        notify(settings, None)
        results.append(train_images(table, settings, out / settings.name, machine=machine))
        notify(settings, results[-1])
    summary = summarise_runs(results)
    if is_global_zero():
        write_whole(out / RESULTS, json.dumps(summary, indent=1).encode())
    return summary


def check_batches(settings: ImageSettings, table: ImageTable, machine: Machine) -> None:
    """Raise an error if there are too few images for a batch, or processes cannot share a batch evenly."""
    rows, size, devices = int((table.splits == "train").sum()), settings.batch_size, machine.devices
    if size > rows:
        raise InputError(f"batch_size={size}, but there are {rows} training images; use {rows} or less")
    if size % devices:
        raise InputError(f"batch_size={size} cannot be shared evenly by {devices} processes; use a multiple of {devices}")


def is_global_zero() -> bool:
    """Return True in the first of several processes that train together; the others do the same work, but write nothing."""
    return getattr(lightning.pytorch.utilities.rank_zero_only, "rank", 0) == 0


def train_images(
    table: ImageTable, settings: ImageSettings, folder: str | os.PathLike[str], *, machine: Machine | None = None
) -> dict[str, Any]:
    """Train a network on a table of images; a finished run is only read, an interrupted one resumes.

    The folder gets ``best.ckpt`` (weights of the epoch that is best on the validation images), ``last.ckpt``, ``history.csv`` and
    ``result.json``. On a CPU, a run that was interrupted at any moment ends with the same weights as one that was not, bit for bit.

    Args:
        table: of images; call :func:`gar.vision.check_images` first.
        settings: what to train, and how.
        folder: of this run alone; it is created if needed.
        machine: where to train.

    Returns:
        The content of ``result.json``: the settings, the best epoch and its metrics on ``val`` and ``test``. An encoder has the
        loss on ``val`` only.
    """
    machine, out = machine or Machine(), Path(folder)
    check_batches(settings, table, machine)
    description = {**asdict(settings), "table": table.fingerprint()}
    if is_global_zero():
        _claim_folder(out, description)
    if (out / RESULT).is_file():
        return dict(json.loads((out / RESULT).read_text()))
    with _readable_errors():
        result = {"name": settings.name, "settings": description, **_train(table, settings, out, machine)}
    if is_global_zero():
        write_whole(out / RESULT, json.dumps(result, indent=1).encode())
    return result


def _claim_folder(out: Path, description: dict[str, Any]) -> None:
    """Create the folder for this run, or check that it is this run's; for another run's the error names the difference."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a folder for the run")
    out.mkdir(parents=True, exist_ok=True)
    for path in out.glob(f"*{UNFINISHED}"):  # of a run that was killed while it wrote
        path.unlink(missing_ok=True)
    if not (out / SETTINGS).exists():
        write_whole(out / SETTINGS, json.dumps(description, indent=1).encode())
    found = json.loads((out / SETTINGS).read_text())
    other = [f"{name} {found.get(name)!r}, not {value!r}" for name, value in description.items() if found.get(name) != value]
    if other:
        raise InputError(f"{out} holds a run with {'; '.join(other)}. Choose another folder, or delete it")


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Turn Lightning's errors into InputError or KeyboardInterrupt, and silence its advice to programmers."""
    logs = [logging.getLogger(f"lightning.{name}") for name in ("pytorch", "fabric")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    except SystemExit as error:  # Lightning's way to end after Ctrl-C
        raise KeyboardInterrupt from error
    except lightning.fabric.utilities.exceptions.MisconfigurationException as error:
        raise InputError(f"this machine cannot train as asked: {error}") from error
    except torch.OutOfMemoryError as error:
        raise InputError(f"there is not enough memory ({str(error)[:80]}); use a smaller batch size or smaller views") from error
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _train(table: ImageTable, settings: ImageSettings, out: Path, machine: Machine) -> dict[str, Any]:
    module = _module(table, settings)
    trainer, checkpoint = machine.trainer(settings.epochs, out)
    process: dict[str, Any] = {"rank": trainer.global_rank, "world": trainer.world_size, "workers": machine.loader_workers}
    shape: dict[str, Any] = {"size": settings.size, "batch_size": settings.batch_size}
    views: dict[str, Any] = {"views": settings.views_per_image, "kind": settings.augmentation}
    train = training_batches(table, seed=settings.seed, **views, **shape, **process)
    val, test = (evaluation_batches(table, split, **shape, **process) for split in SPLITS[1:])
    last = out / LAST
    trainer.fit(module, train, val, ckpt_path=last if last.is_file() else None, weights_only=True)
    best = checkpoint.best(module.monitor)
    result = {"best_epoch": best["epoch"], "val": _split_metrics(best, "val")}
    if isinstance(module, ImageRegressor):
        (scores,) = trainer.test(module, test, ckpt_path=out / BEST, weights_only=True, verbose=False)
        result["test"] = _split_metrics(scores, "test")
    return result


def _module(table: ImageTable, settings: ImageSettings) -> ImageModule:
    names = ("loss", "parameter", "learning_rate", "weight_decay", "epochs", "seed")
    options = {name: getattr(settings, name) for name in names}
    if "pred" not in LOSSES[settings.loss].inputs:
        return ImagePretrainer(**options)
    module = ImageRegressor(**options)
    if settings.standardise and module.head is not None:
        module.head.scale_to(table.part("train")[1])
    return module


def _split_metrics(scores: Any, split: str) -> dict[str, float]:
    return {name.removeprefix(f"{split}_"): value for name, value in scores.items() if name.startswith(f"{split}_")}


def summarise_runs(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results of runs by configuration, with means over seeds; see :func:`train_study`."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        configuration = {name: value for name, value in result["settings"].items() if name != "seed"}
        groups.setdefault(json.dumps(configuration), []).append(result)
    rows = [{**json.loads(key), **_over_seeds(members), "chosen": False} for key, members in groups.items()]
    for loss in {row["loss"] for row in rows}:
        min((row for row in rows if row["loss"] == loss), key=_cost)["chosen"] = True
    return rows


def _over_seeds(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean and standard deviation of each metric on each split."""
    summary: dict[str, Any] = {"seeds": [one["settings"]["seed"] for one in members], "runs": [one["name"] for one in members]}
    for split in ("val", "test"):
        for metric in members[0].get(split, ()):
            values = [one[split][metric] for one in members]
            summary.setdefault(split, {})[metric] = [float(np.mean(values)), float(np.std(values))]
    return summary


def _cost(row: dict[str, Any]) -> float:
    """Return the mean validation error of a regressor, or the mean loss of an encoder, which has nothing else."""
    mean = next(row["val"][name][0] for name in ("mae", "loss") if name in row["val"])
    return float(mean) if np.isfinite(mean) else np.inf
