"""Checkpoints of a training run: its history, its best weights, and the state to resume from."""

import io
import math
from pathlib import Path
from typing import Any, TextIO

import torch

from gar.files import write_whole
from gar.vision.lightning_import import lightning
from gar.vision.modules import ImageModule

LAST, BEST, HISTORY = "last.ckpt", "best.ckpt", "history.csv"


class AtomicCheckpointIO(lightning.pytorch.plugins.TorchCheckpointIO):
    """Writes a checkpoint as a whole or not at all, whenever the process is killed or the disk is full."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        content = io.BytesIO()
        torch.save(checkpoint, content)
        _write(Path(path), content.getvalue())


class EpochCheckpoint(lightning.Callback):
    """Writes after every epoch a row of history, the weights if they are the best so far, and a checkpoint to resume from.

    The checkpoint comes last and holds the history, so files that were written before it are written again when training resumes.
    A run whose loss is no longer finite is stopped, because it would stay so.

    Args:
        folder: where to write.
        stream: gets a line for every epoch.
    """

    def __init__(self, folder: Path, *, stream: TextIO | None = None) -> None:
        self._folder, self._stream = folder, stream
        self.history: list[dict[str, float]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"history": self.history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.history = state_dict["history"]

    def best(self, monitor: str) -> dict[str, float]:
        """Return the first row of history with the smallest value of the monitored metric."""
        return min(self.history, key=lambda row: row[monitor] if math.isfinite(row[monitor]) else math.inf)

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, ImageModule)
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        row = {"epoch": trainer.current_epoch, "learning_rate": trainer.optimizers[0].param_groups[0]["lr"], **metrics}
        self.history.append(row)
        trainer.should_stop = not math.isfinite(row["train_loss"])
        if self.best(pl_module.monitor) is row:
            trainer.save_checkpoint(self._folder / BEST, weights_only=True)
        if trainer.is_global_zero:
            lines = [",".join(row), *(",".join(map(str, past.values())) for past in self.history), ""]
            _write(self._folder / HISTORY, "\n".join(lines).encode())
        trainer.save_checkpoint(self._folder / LAST)
        if trainer.is_global_zero and self._stream is not None:
            names = ("train_loss", pl_module.monitor)
            print(f"epoch {row['epoch']}:", ", ".join(f"{name} {row[name]:.4g}" for name in names), file=self._stream, flush=True)


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole(path, content)
    except OSError as error:
        raise OSError(
            f"{path} could not be written ({error.strerror or error}); the previous file is intact. Free some disk space, and the "
            "same command resumes from it"
        ) from error
