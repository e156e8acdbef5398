"""Batches of whole groups: a loss that compares rows within groups needs several rows of each in a batch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from gar.errors import InputError
from gar.validation import check_groups, whole_number


class GroupBatchSampler(Sampler[list[int]]):
    """Draw batches of some groups each, whole or with a limited number of rows: pass it as ``batch_sampler`` to a ``DataLoader``.

    Every row is drawn once in an epoch. A group with more than ``rows_per_group`` rows is cut into parts of about equal size, which
    come in different batches. Under :mod:`torch.distributed` each rank draws other batches, as many as every other rank; call
    :meth:`set_epoch` before each epoch, or the order of the first is repeated.

    Args:
        groups: a whole number for every row of the data set.
        groups_per_batch: groups, or parts of groups, in a batch.
        rows_per_group: the most rows of a part; None takes whole groups.
        shuffle: whether groups and their rows come in random order.
        seed: of the order, together with the epoch; the same on all ranks.
        drop_last: whether batches that would be incomplete, or that not every rank gets, are left out. Otherwise the first batches
            are drawn again until all ranks have as many.
        rank: of this process; None asks torch.distributed, and is 0 without it.
        world_size: the number of processes; None asks torch.distributed.

    Example:
        >>> days = torch.arange(6).repeat_interleave(10)
        >>> sampler = GroupBatchSampler(days, groups_per_batch=2, rows_per_group=5)
        >>> [len(batch) for batch in sampler]
        [10, 10, 10, 10, 10, 10]
    """

    def __init__(
        self,
        groups: Any,
        *,
        groups_per_batch: int = 8,
        rows_per_group: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        values = torch.as_tensor(groups)
        check_groups(values)
        if values.ndim != 1 or values.numel() == 0:
            raise InputError(f"groups has shape {tuple(values.shape)}; expected one group for every row of the data set: (rows,)")
        numbers = values.cpu().numpy()
        order = numbers.argsort(kind="stable")
        self._rows = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
        self._groups_per_batch = whole_number(groups_per_batch, "groups_per_batch")
        self._rows_per_group = None if rows_per_group is None else whole_number(rows_per_group, "rows_per_group")
        self._shuffle, self._seed, self._drop_last, self._epoch = shuffle, seed, drop_last, 0
        self._rank, self._world_size = _place(rank, world_size)

    def set_epoch(self, epoch: int) -> None:
        """Draw another order, which depends on the seed and the epoch alone."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches of this rank."""
        parts = sum(self._number_of_parts(rows) for rows in self._rows)
        return self._rounded(self._rounded(parts, self._groups_per_batch), self._world_size)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the rows of each batch of this rank."""
        generator = np.random.default_rng([self._seed, self._epoch])
        parts = [
            part for rows in self._rows for part in np.array_split(self._ordered(rows, generator), self._number_of_parts(rows))
        ]
        order = generator.permutation(len(parts)) if self._shuffle else np.arange(len(parts))
        size, batches = self._groups_per_batch, self._rounded(len(parts), self._groups_per_batch)
        for step in range(len(self)):
            first = (step * self._world_size + self._rank) % max(batches, 1) * size
            yield np.concatenate([parts[k] for k in order[first : first + size]]).tolist()

    def _ordered(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return generator.permutation(rows) if self._shuffle else rows

    def _number_of_parts(self, rows: np.ndarray) -> int:
        return 1 if self._rows_per_group is None else -(-len(rows) // self._rows_per_group)

    def _rounded(self, count: int, size: int) -> int:
        return count // size if self._drop_last else -(-count // size)


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if world_size is None:
        world_size = torch.distributed.get_world_size() if is_distributed else 1
    if rank is None:
        rank = torch.distributed.get_rank() if is_distributed else 0
    if not 0 <= rank < world_size:
        raise InputError(f"rank={rank} with world_size={world_size}; expected a number from 0 to {world_size - 1}")
    return rank, world_size
