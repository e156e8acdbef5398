"""Finished chunks on disk: one folder per run, one file per chunk."""

import os
from collections.abc import Hashable, Iterator
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from gar.search.container import DamagedError
from gar.search.fingerprints import column_keys, fingerprint, model_columns, model_keys, run_key
from gar.search.record_folder import NAME_DIGITS, RecordError, RecordFolder, RecordWarning, put_aside
from gar.stack import History, Models, StackData, TrainSettings
from gar.stack.packing import network_layout

__all__ = ["RecordError", "RecordWarning", "Records"]


class Records:
    """The records of one run below ``folder``.

    The name of the run's folder is a fingerprint of its data, settings, precision, device and the version of this package, so a
    changed run has a folder of its own. Within it, a record is known by its models: chunks may be cut anew at every start.

    Args:
        folder: of all runs; it is made if need be.
        data: the table and its folds.
        settings: of training.
        device: where models are trained.
        dtype: their precision.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        data: StackData,
        settings: TrainSettings,
        *,
        device: str | torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._settings, self._dtype, self._layout = settings, dtype, network_layout(data, settings)
        self.run = run_key(data, settings, device=device, dtype=dtype)
        about = {
            "torch": torch.__version__,
            "data": repr(data),
            "dtype": str(dtype),
            "device": torch.device(device).type,
            "settings": {field.name: getattr(settings, field.name) for field in fields(settings)},
        }
        self._files = RecordFolder(folder, self.run, about)
        self.folder = self._files.folder

    def read(self) -> Iterator[tuple[list[Hashable], History]]:
        """Keys and histories of the models of every record. A file that cannot be used is named in a warning and put aside."""
        for path, arrays in self._files.read():
            try:
                record = self._decode(arrays)
            except DamagedError as error:
                put_aside(path, str(error))
            else:
                yield record

    def write(self, models: Models, history: History) -> None:
        """Keep the history of these models."""
        columns = {f"model.{name}": column for name, column in model_columns(models).items()}
        values = {f"history.{name}": value for name, value in _arrays(history).items()}
        self._files.write(fingerprint((self.run, model_keys(models)))[:NAME_DIGITS], columns | values)

    def _decode(self, arrays: dict[str, np.ndarray]) -> tuple[list[Hashable], History]:
        columns = {name.removeprefix("model."): arrays[name] for name in sorted(arrays) if name.startswith("model.")}
        if not columns or len({column.shape for column in columns.values()}) != 1:
            raise DamagedError("it does not say which models it holds")
        keys = column_keys(columns)
        history = History.empty(self._layout, len(keys), self._settings, dtype=self._dtype)
        for name, value in _arrays(history).items():
            stored = arrays.get(f"history.{name}")
            if stored is None or stored.shape != value.shape or stored.dtype != value.dtype:
                raise DamagedError(f"its {name} is missing or of the wrong shape")
            value[...] = stored
        return keys, history


def _arrays(history: History) -> dict[str, np.ndarray]:
    """All that was measured or kept, by name, sharing memory with the history."""
    values = {field.name: getattr(history, field.name) for field in fields(history)}
    numbers = {name: value.numpy() if isinstance(value, Tensor) else value for name, value in values.items()}
    return {name: value for name, value in numbers.items() if isinstance(value, np.ndarray)}
