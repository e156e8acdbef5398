"""Batches of whole groups, on one process and on several."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gar import GARLoss
from gar.errors import InputError
from gar.sampling import GroupBatchSampler
from tests.processes import Ranks

DAYS = torch.tensor(np.random.default_rng(0).integers(-3, 9, 200) * 1000)


def test_every_row_is_drawn_once_in_whole_groups() -> None:
    batches = list(GroupBatchSampler(DAYS, groups_per_batch=5))
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    for batch in batches:
        assert sum(int((day == DAYS).sum()) for day in DAYS[batch].unique()) == len(batch)
    assert [len(DAYS[batch].unique()) for batch in batches] == [5, 5, 2]


def test_large_groups_are_cut_into_parts_of_about_equal_size() -> None:
    batches = list(GroupBatchSampler(torch.zeros(21).long(), groups_per_batch=1, rows_per_group=10))
    assert sorted(map(len, batches)) == [7, 7, 7]  # not one row alone, which has no partner


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_draw_other_batches_and_as_many(world: int, drop_last: bool) -> None:
    options = {"groups_per_batch": 3, "rows_per_group": 8, "drop_last": drop_last, "world_size": world}
    samplers = [GroupBatchSampler(DAYS, rank=rank, **options) for rank in range(world)]  # type: ignore[arg-type]
    drawn = [list(sampler) for sampler in samplers]
    assert {len(batches) for batches in drawn} == {len(samplers[0])}
    rows = [row for batches in drawn for batch in batches for row in batch]
    if drop_last:
        assert len(rows) == len(set(rows))
    else:
        assert set(rows) == set(range(200))


def test_the_order_is_that_of_seed_and_epoch() -> None:
    one, other = (GroupBatchSampler(DAYS, seed=3) for _ in range(2))
    assert list(one) == list(one) == list(other)
    other.set_epoch(1)
    assert list(one) != list(other)
    assert list(one) != list(GroupBatchSampler(DAYS, seed=4))
    in_order = list(GroupBatchSampler(DAYS, shuffle=False, groups_per_batch=100))
    assert in_order == [DAYS.argsort(stable=True).tolist()]


def test_a_data_loader_draws_from_it() -> None:
    data = TensorDataset(torch.randn(200, 1), torch.randn(200, 1), DAYS)
    loader = DataLoader(data, batch_sampler=GroupBatchSampler(DAYS, groups_per_batch=4))
    assert len(loader) == 3
    for pred, target, days in loader:
        assert GARLoss()(pred, target, groups=days).isfinite()


def rows_of_rank(rank: int, world: int) -> list[list[int]]:
    return list(GroupBatchSampler(DAYS, groups_per_batch=2))


def test_ranks_are_those_of_torch_distributed(tmp_path: Path) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    ranks = Ranks(2, tmp_path)
    drawn = ranks.run(rows_of_rank)
    ranks.close()
    assert sorted(row for batches in drawn for batch in batches for row in batch) == list(range(200))


def test_misuse_is_explained() -> None:
    with pytest.raises(InputError, match=r"groups has shape \(2, 3\)"):
        GroupBatchSampler(torch.zeros(2, 3).long())
    with pytest.raises(InputError, match="1 NaN of 2 values"):
        GroupBatchSampler(torch.tensor([1.0, torch.nan]))
    with pytest.raises(InputError, match="groups_per_batch=0"):
        GroupBatchSampler(DAYS, groups_per_batch=0)
    with pytest.raises(InputError, match="rank=2 with world_size=2"):
        GroupBatchSampler(DAYS, rank=2, world_size=2)
