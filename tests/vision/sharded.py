"""One step of training on a batch that two processes share: ``python -m tests.vision.sharded TABLE FILE``, alone or by torchrun.

Alone, Lightning starts the second process; torchrun starts both. The first one writes the loss, the gradients and the metrics.
"""

import sys
from typing import Any

import torch
from torch import nn

from gar.vision import ImageRegressor, read_images
from gar.vision.encoder import WIDTH
from gar.vision.lightning_import import lightning
from gar.vision.views import evaluation_batches, training_batches


def network() -> nn.Module:
    """Without batch norm, whose statistics are those of a process's own rows, whatever the loss."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, WIDTH), nn.ReLU()
    )


class Recorder(lightning.Callback):
    """Loss and gradients before the first step."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.found["loss"] = outputs["loss"].detach()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        self.found["gradients"] = {name: weight.grad.clone() for name, weight in pl_module.named_parameters()}


def one_step(table_file: str, processes: int) -> tuple[dict[str, Any], bool]:
    """What was found, and whether this is the first process."""
    table, recorder = read_images(table_file, target="minutes"), Recorder()
    torch.manual_seed(0)
    module = ImageRegressor(loss="gar", parameter=0.5, encoder=network())
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        precision="64-true",
        max_steps=1,
        callbacks=[recorder],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
    )
    shared: dict[str, Any] = {"size": 16, "batch_size": 20, "rank": trainer.global_rank, "world": trainer.world_size}
    trainer.fit(module, training_batches(table, seed=1, **shared))
    (metrics,) = trainer.test(module, evaluation_batches(table, "train", **shared), verbose=False)
    return {**recorder.found, "metrics": metrics}, trainer.is_global_zero


if __name__ == "__main__":
    torch.set_num_threads(1)
    found, is_first = one_step(sys.argv[1], 2)
    if is_first:
        torch.save(found, sys.argv[2])
