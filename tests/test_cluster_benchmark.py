"""The simulation of a cluster deals out chunks as a search does."""

import pytest
import torch

from benchmarks.cluster import Work, makespan, simulate
from gar.search.grid import _cut
from gar.stack import chunks
from tests.search.problem import LONG, many_models, small_data


@pytest.mark.parametrize("workers", [1, 2, 3, 16, 1000])
def test_chunks_are_those_of_a_search(workers: int) -> None:
    data, models = small_data(), many_models()
    most = max(map(len, chunks(data, models, LONG, limit=None, dtype=torch.float32)))
    expected = sorted(map(len, _cut(data, models, LONG, workers, None, torch.float32)))
    assert sorted(Work("", len(models), most, 1.0, 1.0).cut(workers)) == expected


def test_list_scheduling() -> None:
    assert makespan([3.0, 2.0, 2.0], 1, 0.0) == 7.0
    assert makespan([3.0, 2.0, 2.0], 2, 0.0) == 4.0  # the third goes to the worker that is free first
    assert makespan([3.0, 2.0, 2.0], 9, 0.0) == 3.0
    assert makespan([1.0] * 4, 9, 10.0) == 41.0  # the driver comes to one every ten seconds


def test_what_limits() -> None:
    even = Work("", 1000, 10, 1.0, 1.0)
    assert simulate([even], 2, 0.0).limit == "nothing"
    assert simulate([even], 5000, 0.0).limit == "waiting for the last chunks"
    assert simulate([even], 500, 10.0).limit == "the driver"
    assert simulate([Work("", 1000, 10, 1.0, 0.01)], 500, 0.0).limit == "small chunks"
