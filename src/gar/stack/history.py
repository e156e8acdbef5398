"""What training leaves behind."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gar.errors import InputError
from gar.metrics import METRICS
from gar.stack.data import SPLITS
from gar.stack.network import Layout, StackedMLP
from gar.stack.settings import TrainSettings


@dataclass(repr=False)
class History:
    """Metrics of every model after every epoch, and weights if they were asked for.

    ``metrics`` has shape ``(G, epochs, splits, metrics)``, splits and metrics in the order of :data:`SPLITS` and
    :data:`gar.metrics.METRICS`, in the units of the table. It is NaN where nothing was measured: after a model failed or stopped,
    and for a split without rows.
    """

    layout: Layout
    metrics: np.ndarray
    epochs_run: np.ndarray
    """Epochs each model finished, ``(G,)``."""
    failed_epoch: np.ndarray
    """The epoch, counted from 0, in which a model's loss, weights or predictions ceased to be finite; -1 for none, ``(G,)``."""
    best_epoch: np.ndarray
    """The epoch best on the validation rows by ``keep_best`` (or ``monitor`` with patience alone); -1 for none, ``(G,)``."""
    best_table: Tensor | None = None
    final_table: Tensor | None = None

    @staticmethod
    def empty(layout: Layout, models: int, settings: TrainSettings, *, dtype: torch.dtype) -> "History":
        """Nothing measured yet."""

        def table(wanted: bool) -> Tensor | None:
            return torch.full((models, layout.length), torch.nan, dtype=dtype, device="cpu") if wanted else None

        return History(
            layout=layout,
            metrics=np.full((models, settings.epochs, len(SPLITS), len(METRICS)), np.nan),
            epochs_run=np.zeros(models, np.int64),
            failed_epoch=np.full(models, -1),
            best_epoch=np.full(models, -1),
            best_table=table(settings.keep_best is not None),
            final_table=table(settings.keep_final),
        )

    @property
    def is_complete(self) -> bool:
        """Return True if every model was trained to its end or failed; a search that ran out of time leaves some untouched."""
        return bool(np.all((self.epochs_run > 0) | (self.failed_epoch >= 0)))

    def __len__(self) -> int:
        return len(self.metrics)

    def __repr__(self) -> str:
        failed = int((self.failed_epoch >= 0).sum())
        return f"History(models={len(self)}, epochs={self.metrics.shape[1]}, sizes={self.layout.sizes}, failed={failed})"

    def of(self, split: str, metric: str) -> np.ndarray:
        """One metric on one split, ``(G, epochs)``."""
        if split not in SPLITS or metric not in METRICS:
            raise InputError(f"history has splits {SPLITS} and metrics {METRICS}, not {split!r} and {metric!r}")
        values: np.ndarray = self.metrics[:, :, SPLITS.index(split), METRICS.index(metric)]
        return values

    @property
    def best(self) -> StackedMLP:
        """All models with the weights of their best epoch; NaN for a model without one."""
        if self.best_table is None:
            raise InputError("the best weights were not kept; train with TrainSettings(keep_best='mae') or another metric")
        return StackedMLP(self.layout, self.best_table)

    @property
    def final(self) -> StackedMLP:
        """All models with the weights of their last epoch; NaN for a model that failed."""
        if self.final_table is None:
            raise InputError("the final weights were not kept; train with TrainSettings(keep_final=True)")
        return StackedMLP(self.layout, self.final_table)

    def take(self, places: np.ndarray) -> "History":
        """The history of the models at these places, in this order."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, np.ndarray | Tensor):
                values[name] = value[places]
        return replace(self, **values)

    def put(self, places: np.ndarray, part: "History") -> None:
        """Enter the history of some models, which were trained apart, at their places in this one."""
        for name in ("metrics", "epochs_run", "failed_epoch", "best_epoch"):
            getattr(self, name)[places] = getattr(part, name)
        for whole, table in ((self.best_table, part.best_table), (self.final_table, part.final_table)):
            if whole is not None and table is not None:
                whole[torch.from_numpy(places)] = table
