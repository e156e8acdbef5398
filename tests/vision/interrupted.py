"""A training run that is killed at a given moment: ``python -m tests.vision.interrupted TABLE FOLDER MOMENT``."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from gar.vision import ImageSettings, Machine, modules, read_images, train_images
from gar.vision.modules import ImageModule
from tests.vision.conftest import small_network

SETTINGS = ImageSettings(loss="ranksim", epochs=3, batch_size=14, size=16)
"""RankSim uses random numbers, so that they matter, too; there are three batches in each epoch."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_step(epoch: int, step: int) -> None:
    original = ImageModule.training_step

    def training_step(self: ImageModule, batch: Any) -> Any:
        if (self.current_epoch, self.trainer.global_step % 3) == (epoch, step):
            die()
        return original(self, batch)

    ImageModule.training_step = training_step  # type: ignore[method-assign]


def die_while_writing(name: str, count: int) -> None:
    """Kill the process with a part of the file on disk, when it is written for the ``count``-th time."""
    original = os.fsync
    seen = 0

    def fsync(descriptor: Any) -> None:
        nonlocal seen
        file = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        seen += file.name.startswith(name)
        if seen == count:
            os.truncate(file, 1000)
            die()
        original(descriptor)

    os.fsync = fsync  # type: ignore[assignment]


MOMENTS = {
    "middle of an epoch": lambda: die_in_step(1, 2),
    "writing the checkpoint": lambda: die_while_writing("last.ckpt", 1),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    modules.resnet18 = small_network  # type: ignore[attr-defined, assignment]
    MOMENTS[sys.argv[3]]()
    train_images(read_images(sys.argv[1], target="minutes"), SETTINGS, sys.argv[2], machine=Machine(accelerator="cpu"))
