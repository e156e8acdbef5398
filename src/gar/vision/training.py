"""From a table of images to a trained network: one run, which goes on where it was interrupted."""

import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gar.errors import InputError
from gar.files import UNFINISHED, write_whole
from gar.losses import registry
from gar.validation import check_choice
from gar.vision.checkpoint import BEST, LAST, Keeper, WholeFiles
from gar.vision.images import SPLITS, ImageTable
from gar.vision.lightning_import import lightning
from gar.vision.modules import ImageModule, ImagePretrainer, ImageRegressor
from gar.vision.views import evaluation_batches, training_batches

SETTINGS, RESULT = "settings.json", "result.json"


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """What a run is; two runs with equal settings and tables have equal results.

    Args:
        loss: a name of :data:`gar.losses.registry`; one of features alone, such as ``"rnc"``, trains an encoder without a head.
        parameter: of the loss; None is its default.
        epochs: passes over the training images.
        batch_size: images of a batch, over all processes; each comes in two views.
        learning_rate: at the start of the cosine schedule.
        weight_decay: L2.
        size: side of the views, in pixels.
        standardise: train on numbers in standard deviations from their mean. The paper does not.
        seed: of initial weights, order and views.
    """

    loss: str = "gar"
    parameter: float | None = None
    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 0.02
    weight_decay: float = 1e-4
    size: int = 224
    standardise: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.loss, tuple(registry), "loss")
        registry[self.loss].build(self.parameter)
        for name, least in (("epochs", 1), ("batch_size", 1), ("size", 16), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} is too small; expected {least} or more")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise InputError(f"learning_rate={self.learning_rate} is no positive number")
        if not (self.weight_decay >= 0 and math.isfinite(self.weight_decay)):
            raise InputError(f"weight_decay={self.weight_decay} is neither 0 nor a positive number")

    @property
    def name(self) -> str:
        """For a folder: what runs of one study differ in."""
        spec = registry[self.loss]
        parameter = "" if self.parameter is None else f"-{spec.parameter}{self.parameter:g}"
        return f"{self.loss}{parameter}-lr{self.learning_rate:g}-decay{self.weight_decay:g}-seed{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where a run is trained, which is no part of what it is.

    Args:
        accelerator: ``"auto"``, ``"cpu"``, ``"gpu"`` or another of Lightning's.
        devices: how many of them; more than one is a process each (DDP), which share the batch.
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

    def trainer(self, epochs: int, folder: Path) -> tuple[lightning.Trainer, Keeper]:
        """What trains, and what keeps the results."""
        has_bar = self.progress and sys.stdout.isatty()
        keeper = Keeper(folder, stream=sys.stderr if self.progress and not has_bar else None)
        half = "bf16-mixed" if self.has_gpu and torch.cuda.is_bf16_supported() else "16-mixed"
        precision: Any = self.precision or (half if self.has_gpu else "32-true")
        trainer = lightning.Trainer(
            accelerator=self.accelerator,
            devices=self.devices,
            strategy="ddp" if self.devices > 1 else "auto",
            precision=precision,
            max_epochs=epochs,
            callbacks=[keeper],
            plugins=[WholeFiles()],
            logger=_tensorboard(folder),
            enable_checkpointing=False,  # Lightning's own; ours is the keeper
            enable_progress_bar=has_bar,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
        )
        return trainer, keeper


def train_images(
    table: ImageTable, settings: ImageSettings, folder: str | os.PathLike[str], *, machine: Machine | None = None
) -> dict[str, Any]:
    """Train a network on a table of images; a finished run is only read, an interrupted one goes on.

    The folder gets ``best.ckpt`` (weights of the epoch that is best on the validation images), ``last.ckpt``, ``history.csv`` and
    ``result.json``. On a CPU, a run that was interrupted at any moment ends with the same weights as one that was not, bit for bit.

    Args:
        table: of images; call :func:`gar.vision.check_images` first.
        settings: what to train, and how.
        folder: of this run alone; it is made if need be.
        machine: where to train.

    Returns:
        What ``result.json`` holds: the settings, the best epoch and its metrics on ``val`` and ``test``. An encoder has the
        loss on ``val`` only.
    """
    machine, out = machine or Machine(), Path(folder)
    check_fit(settings, table, machine)
    about = {**asdict(settings), "table": table.fingerprint()}
    if is_first_process():
        _claim(out, about)
    if (out / RESULT).is_file():
        return dict(json.loads((out / RESULT).read_text()))
    with _plain_errors():
        result = {"name": settings.name, "settings": about, **_train(table, settings, out, machine)}
    if is_first_process():
        write_whole(out / RESULT, json.dumps(result, indent=1).encode())
    return result


def is_first_process() -> bool:
    """Of several that train together. The others do the same work, but write nothing."""
    return getattr(lightning.pytorch.utilities.rank_zero_only, "rank", 0) == 0


def _train(table: ImageTable, settings: ImageSettings, out: Path, machine: Machine) -> dict[str, Any]:
    module = _module(table, settings)
    trainer, keeper = machine.trainer(settings.epochs, out)
    place = {"rank": trainer.global_rank, "world": trainer.world_size, "workers": machine.loader_workers}
    shape = {"size": settings.size, "batch_size": settings.batch_size}
    train = training_batches(table, seed=settings.seed, **shape, **place)
    val, test = (evaluation_batches(table, split, **shape, **place) for split in SPLITS[1:])
    last = out / LAST
    trainer.fit(module, train, val, ckpt_path=last if last.is_file() else None, weights_only=True)
    best = keeper.best(module.monitor)
    found = {"best_epoch": best["epoch"], "val": _of(best, "val")}
    if isinstance(module, ImageRegressor):
        (scores,) = trainer.test(module, test, ckpt_path=out / BEST, weights_only=True, verbose=False)
        found["test"] = _of(scores, "test")
    return found


def check_fit(settings: ImageSettings, table: ImageTable, machine: Machine) -> None:
    """There are images enough for a batch, and every process has as many of them."""
    rows, size, devices = int((table.splits == "train").sum()), settings.batch_size, machine.devices
    if size > rows:
        raise InputError(f"batch_size={size}, but there are {rows} training images; use {rows} or less")
    if size % devices:
        raise InputError(f"batch_size={size} cannot be shared evenly by {devices} processes; use a multiple of {devices}")


def _module(table: ImageTable, settings: ImageSettings) -> ImageModule:
    names = ("loss", "parameter", "learning_rate", "weight_decay", "epochs", "seed")
    options = {name: getattr(settings, name) for name in names}
    if "pred" not in registry[settings.loss].inputs:
        return ImagePretrainer(**options)
    module = ImageRegressor(**options)
    if settings.standardise and module.head is not None:
        module.head.scale_to(table.part("train")[1])
    return module


def _of(scores: Any, split: str) -> dict[str, float]:
    return {name.removeprefix(f"{split}_"): value for name, value in scores.items() if name.startswith(f"{split}_")}


def _claim(out: Path, about: dict[str, Any]) -> None:
    """Make the folder this run's, or find that it already is; another run's is an error that tells the difference."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a folder for the run")
    out.mkdir(parents=True, exist_ok=True)
    for path in out.glob(f"*{UNFINISHED}"):  # left by a run that was killed while it wrote
        path.unlink(missing_ok=True)
    note = out / SETTINGS
    if not note.exists():
        write_whole(note, json.dumps(about, indent=1).encode())
    before = json.loads(note.read_text())
    other = [f"{name} {before.get(name)!r}, not {value!r}" for name, value in about.items() if before.get(name) != value]
    if other:
        raise InputError(f"{out} holds a run with {'; '.join(other)}. Choose another folder, or delete it")


def _tensorboard(folder: Path) -> Any:
    """A log for TensorBoard where it is installed; the history is written in any case."""
    from importlib.util import find_spec

    if find_spec("tensorboard") is None:
        return False
    from lightning.pytorch.loggers import TensorBoardLogger

    return TensorBoardLogger(folder, name=None, version="tensorboard")


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Ctrl-C stays Ctrl-C, what a user can mend is told so, and Lightning's advice to programmers is left out."""
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
