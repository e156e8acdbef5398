"""Lightning modules: a regressor trained from scratch with any loss, and an encoder trained by a loss of features alone."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.metrics import all_metrics
from gar.registry import LOSSES, METRICS
from gar.vision.encoder import WIDTH, resnet18
from gar.vision.lightning_import import lightning
from gar.vision.views import ImageBatch, seed_of, seeded


class Head(nn.Linear):
    """A linear head for one target. It is trained on standardised targets and predicts in their units."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__(WIDTH, 1)
        self.register_buffer("mean", torch.tensor(0.0))
        self.register_buffer("deviation", torch.tensor(1.0))

    def forward(self, features: Tensor) -> Tensor:
        """Return scaled predictions in the precision of the weights, also under autocast: half precision would round them."""
        with torch.autocast(features.device.type, enabled=False):
            return super().forward(features.to(self.weight.dtype))

    def scale_to(self, targets: np.ndarray) -> None:
        """Standardise with mean and deviation of training targets; if they are constant, the deviation stays 1."""
        self.mean.fill_(float(targets.mean()))
        self.deviation.fill_(float(targets.std()) or 1.0)

    def scaled(self, targets: Tensor) -> Tensor:
        return (targets - self.mean) / self.deviation

    def predict(self, features: Tensor) -> Tensor:
        """Return predictions in units of the targets."""
        scaled: Tensor = self(features)
        return scaled * self.deviation + self.mean


class ImageModule(lightning.LightningModule):
    """What both tasks share: an encoder, a registered loss, SGD with momentum, and the cosine schedule.

    Learning rate and random numbers are functions of the epoch, so they need no state when training resumes after an
    interruption. In several processes a loss on pairs is that of the joined batch; only MAE-Pearson sees its own process's rows.

    Args:
        loss: a name of :data:`gar.registry.LOSSES`.
        parameter: of the loss; None is its default.
        learning_rate: at the start.
        weight_decay: L2, as in ``torch.optim.SGD``.
        epochs: over which the learning rate falls to zero.
        seed: of initial weights, and of a loss that uses random numbers.
        encoder: returns features ``(images, 512)``; None is ResNet18 with random weights.
    """

    loss: Any
    monitor: str
    """The metric by which the best epoch is chosen; smaller is better."""

    def __init__(
        self,
        *,
        loss: str,
        parameter: float | None = None,
        learning_rate: float = 0.02,
        weight_decay: float = 1e-4,
        epochs: int = 100,
        seed: int = 0,
        encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["encoder"])
        self.learning_rate, self.weight_decay, self.epochs, self.seed = learning_rate, weight_decay, epochs, seed
        self._spec = LOSSES[loss]
        self.loss = self._spec.build(parameter)
        with seeded(seed):
            self.encoder = resnet18() if encoder is None else encoder
            self.head = Head() if "pred" in self._spec.inputs else None

    def setup(self, stage: str) -> None:
        if self.trainer.world_size > 1 and hasattr(self.loss, "process_group"):  # the losses on pairs
            self.loss.process_group = "world"
        if self.trainer.strategy.root_device.type == "cuda" or self.trainer.precision == "bf16-mixed":
            self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate, momentum=0.9, weight_decay=self.weight_decay)

    def on_train_batch_start(self, batch: ImageBatch, batch_idx: int) -> None:
        torch.manual_seed(seed_of(self.seed, self.current_epoch, batch_idx))
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * self.current_epoch / self.epochs))

    def training_step(self, batch: ImageBatch) -> Tensor:
        loss = self.batch_loss(batch)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True, batch_size=len(batch[0]), sync_dist=True)
        return loss

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        """Return the loss of a batch, in which every view is a row."""
        views, targets, _ = batch
        target = targets.repeat_interleave(views.shape[1]).unsqueeze(-1)
        given = {"features": self.encoder(views.flatten(0, 1))}
        if self.head is not None:
            given["pred"], target = self.head(given["features"]), self.head.scaled(target)
        first, *rest = (given[name] for name in self._spec.inputs)
        value: Tensor = self.loss(first, target, *rest)
        return value


class ImageRegressor(ImageModule):
    """ResNet18 with a linear head, trained from scratch. ``regressor(images)`` returns predictions ``(images, 1)``.

    ``ImageRegressor.load_from_checkpoint(path)`` loads a trained one.

    Args:
        options: those of :class:`gar.vision.ImageModule`, with a loss of predictions.
    """

    monitor = "val_mae"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.head is None:
            raise InputError(f"loss={options['loss']!r} trains features alone, no regressor; use it for pre-training")
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def forward(self, images: Tensor) -> Tensor:
        assert self.head is not None
        return self.head.predict(self.encoder(images))

    def validation_step(self, batch: ImageBatch) -> None:
        views, targets, rows = batch
        self._seen.append((self(views.flatten(0, 1)), targets.unsqueeze(-1), rows))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        self._log_metrics("val")

    def on_test_epoch_end(self) -> None:
        self._log_metrics("test")

    def _log_metrics(self, split: str) -> None:
        """Log metrics of all rows at once, each row once: a correlation is not the mean of those of batches or processes."""
        gathered: Any = self.all_gather([torch.cat(part) for part in zip(*self._seen, strict=True)])
        pred, targets, rows = (part.flatten().cpu() for part in gathered)
        self._seen.clear()
        once = np.unique(rows.numpy(), return_index=True)[1]
        for name, value in zip(METRICS, all_metrics(pred[once], targets[once]).float(), strict=True):
            self.log(f"{split}_{name}", value, prog_bar=name == "mae")


class ImagePretrainer(ImageModule):
    """ResNet18 without a head, trained by a loss of features such as Rank-N-Contrast. ``pretrainer(images)`` returns features.

    Args:
        options: those of :class:`gar.vision.ImageModule`, with a loss of features alone.
    """

    monitor = "val_loss"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.head is not None:
            choices = ", ".join(repr(name) for name, spec in LOSSES.items() if "pred" not in spec.inputs)
            raise InputError(f"loss={options['loss']!r} trains predictions; pre-training takes a loss of features alone: {choices}")

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.encoder(images)
        return features

    def validation_step(self, batch: ImageBatch) -> None:
        self.log("val_loss", self.batch_loss(batch), on_epoch=True, prog_bar=True, batch_size=len(batch[0]), sync_dist=True)
