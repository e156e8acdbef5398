"""Metrics within groups, against loops over groups with the metrics of all rows and with scipy."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from gar import metrics
from gar.group_metrics import within_groups
from tests import references as slow


@pytest.fixture
def batch() -> tuple[Tensor, Tensor, Tensor]:
    groups = torch.randint(6, (120,)) * 10**12
    pred = torch.randn(120, dtype=torch.float64)
    return pred, (pred + torch.randn(120, dtype=torch.float64)).mul(2).round() + 5, groups  # labels with ties


def test_each_is_the_mean_over_groups(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    pred, target, groups = batch
    found = within_groups(pred, target, groups)
    parts = [(pred[groups == k].numpy(), target[groups == k].numpy()) for k in groups.unique()]
    expected = {
        "pearson": [1 - slow.pearson(f, y) for f, y in parts],
        "spearman": [spearmanr(f, y).statistic for f, y in parts],
        "nash_sutcliffe": [1 - slow.nash_sutcliffe(f, y) for f, y in parts],
        "kling_gupta": [1 - slow.kling_gupta(f, y, "2009", "ratio") for f, y in parts],
        "concordance": [1 - slow.concordance(f, y) for f, y in parts],
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert float(found[name]) == pytest.approx(np.mean(values), abs=1e-12), name


def test_one_group_has_the_metrics_of_all_rows(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    pred, target, _ = batch
    weight = torch.randint(0, 4, (120,)).double()
    target[::7] = torch.nan
    found = within_groups(pred, target, torch.zeros(120).long(), weight=weight)
    torch.testing.assert_close(found["pearson"], metrics.pearson(pred, target, weight=weight))
    torch.testing.assert_close(found["spearman"], metrics.spearman(pred, target, weight=weight))
    torch.testing.assert_close(found["nash_sutcliffe"], metrics.r2(pred, target, weight=weight))


def test_models_and_targets(batch: tuple[Tensor, Tensor, Tensor]) -> None:
    pred, target, groups = batch
    stack = torch.stack([pred, -pred, pred.exp()]).unsqueeze(-1)
    found = within_groups(stack, target.unsqueeze(-1), groups)["spearman"]
    torch.testing.assert_close(found, torch.stack([within_groups(one, target, groups)["spearman"] for one in (pred, -pred, pred)]))
    both = within_groups(torch.stack([pred, -pred], -1), torch.stack([target, target], -1), groups)["pearson"]
    torch.testing.assert_close(both, torch.zeros((), dtype=torch.float64))


def test_what_does_not_count() -> None:
    groups, target = torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([3.0, 3.0, 1.0, 2.0, 3.0, 7.0])
    found = within_groups(torch.tensor([1.0, 2.0, 5.0, 6.0, 7.0, 8.0]), target, groups)
    assert float(found["pearson"]) == pytest.approx(1.0)
    assert float(within_groups(torch.zeros(6), target, groups)["pearson"]) == 0.0
    assert within_groups(torch.zeros(2), target[:2], groups[:2])["pearson"].isnan()
    assert within_groups(torch.full((6,), torch.nan), target, groups)["pearson"].isnan()
