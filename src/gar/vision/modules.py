"""Lightning modules: a regressor trained from scratch with any loss, and an encoder trained by a loss of features alone."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.losses import registry
from gar.metrics import METRICS, all_metrics
from gar.vision.encoder import WIDTH, resnet18
from gar.vision.lightning_import import lightning
from gar.vision.views import Batch, seed_of, seeded


class ImageModule(lightning.LightningModule):
    """What both tasks share: an encoder, a loss of the registry, SGD with momentum, and the cosine schedule.

    Learning rate and random numbers are functions of the epoch: there is nothing to remember when training goes on after an
    interruption. In several processes a loss on pairs is that of the joined batch; only MAE-Pearson sees its own process's rows.

    Args:
        loss: a name of :data:`gar.losses.registry`.
        parameter: of the loss; None is its default.
        learning_rate: at the start.
        weight_decay: L2, as in ``torch.optim.SGD``.
        epochs: over which the learning rate falls to zero.
        seed: of initial weights, and of a loss that draws.
        encoder: makes features ``(images, 512)``; None is ResNet18 with random weights.
    """

    loss: Any
    monitor: str
    """The number that tells the best epoch; smaller is better."""

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
        self._spec = registry[loss]
        self.loss = self._spec.build(parameter)
        with seeded(seed):
            self.encoder = resnet18() if encoder is None else encoder
            self.head = Head() if "pred" in self._spec.inputs else None

    def setup(self, stage: str) -> None:
        if self.trainer.world_size > 1 and hasattr(self.loss, "process_group"):  # the losses on pairs
            self.loss.process_group = "world"
        if self.trainer.strategy.root_device.type == "cuda":
            self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate, momentum=0.9, weight_decay=self.weight_decay)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        torch.manual_seed(seed_of(self.seed, self.current_epoch, batch_idx))
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.learning_rate * 0.5 * (1.0 + math.cos(math.pi * self.current_epoch / self.epochs))

    def training_step(self, batch: Batch) -> Tensor:
        loss = self.loss_of(batch)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True, batch_size=len(batch[0]), sync_dist=True)
        return loss

    def loss_of(self, batch: Batch) -> Tensor:
        """The loss of a batch; every view is a row."""
        views, numbers, _ = batch
        target = numbers.repeat_interleave(views.shape[1]).unsqueeze(-1)
        given = {"features": self.encoder(views.flatten(0, 1))}
        if self.head is not None:
            given["pred"], target = self.head(given["features"]), self.head.scaled(target)
        first, *rest = (given[name] for name in self._spec.inputs)
        value: Tensor = self.loss(first, target, *rest)
        return value


class Head(nn.Linear):
    """A linear head for one number. It is trained on numbers in standard deviations from their mean, and tells them in their own
    units; with mean 0 and deviation 1, as they are."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__(WIDTH, 1)
        self.register_buffer("mean", torch.tensor(0.0))
        self.register_buffer("deviation", torch.tensor(1.0))

    def scale_to(self, numbers: np.ndarray) -> None:
        """Take mean and deviation of training numbers; constant ones keep the deviation 1."""
        self.mean.fill_(float(numbers.mean()))
        self.deviation.fill_(float(numbers.std()) or 1.0)

    def scaled(self, numbers: Tensor) -> Tensor:
        return (numbers - self.mean) / self.deviation

    def predict(self, features: Tensor) -> Tensor:
        """In units of the labels."""
        scaled: Tensor = self(features).to(self.mean.dtype)  # from half precision
        return scaled * self.deviation + self.mean


class ImageRegressor(ImageModule):
    """ResNet18 with a linear head, trained from scratch. ``regressor(images)`` are predictions ``(images, 1)``.

    ``ImageRegressor.load_from_checkpoint(path)`` brings a trained one back.

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

    def validation_step(self, batch: Batch) -> None:
        views, numbers, rows = batch
        self._seen.append((self(views.flatten(0, 1)), numbers.unsqueeze(-1), rows))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        self._log_metrics("val")

    def on_test_epoch_end(self) -> None:
        self._log_metrics("test")

    def _log_metrics(self, split: str) -> None:
        """Of all rows at once, for a correlation is not the mean of those of batches; each row once, whoever saw it."""
        gathered: Any = self.all_gather([torch.cat(part) for part in zip(*self._seen, strict=True)])
        pred, numbers, rows = (part.flatten().cpu() for part in gathered)
        self._seen.clear()
        once = np.unique(rows.numpy(), return_index=True)[1]
        values = all_metrics(pred[once], numbers[once])
        for name, value in zip(METRICS, values.float(), strict=True):
            self.log(f"{split}_{name}", value, prog_bar=name == "mae")


class ImagePretrainer(ImageModule):
    """ResNet18 without a head, trained by a loss of features such as Rank-N-Contrast. ``pretrainer(images)`` are features.

    Args:
        options: those of :class:`gar.vision.ImageModule`, with a loss of features alone.
    """

    monitor = "val_loss"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.head is not None:
            raise InputError(f"loss={options['loss']!r} trains predictions; pre-training takes a loss of features alone: 'rnc'")

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.encoder(images)
        return features

    def validation_step(self, batch: Batch) -> None:
        self.log("val_loss", self.loss_of(batch), on_epoch=True, prog_bar=True, batch_size=len(batch[0]), sync_dist=True)
