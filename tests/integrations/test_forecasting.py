"""GAR of forecasts: pairs along the horizon, along the batch or both, channel by channel."""

import pytest
import torch
from torch import Tensor

from gar import GARLoss, InputError
from gar.functional import difference_loss
from gar.integrations.forecasting import Along, ForecastLoss
from gar.validation import Pairs


def make_forecasts(channels: int) -> tuple[Tensor, Tensor]:
    return torch.randn(12, 7, channels, dtype=torch.float64), torch.randn(12, 7, channels, dtype=torch.float64)


def test_along_the_horizon_steps_of_a_forecast_are_compared() -> None:
    """The variance of errors is half the mean square of differences of differences, over all pairs of steps of a window."""
    pred, target = make_forecasts(2)
    error = pred - target
    pairs = error.unsqueeze(1) - error.unsqueeze(2)  # (batch, step, other step, channel)
    value = ForecastLoss(along="horizon", components=("diff",), form="exp", eps=1e-12)(pred, target)
    torch.testing.assert_close(value, (pairs**2).mean() / 2)
    across = ForecastLoss(along="batch", components=("diff",), form="exp", eps=1e-12)(pred, target)
    torch.testing.assert_close(across, torch.stack([difference_loss(pred[..., c], target[..., c]) for c in range(2)]).mean())
    assert not torch.isclose(value, across)


@pytest.mark.parametrize("along", ["batch", "horizon", "both"])
def test_the_value_is_the_mean_over_channels(along: Along) -> None:
    pred, target = make_forecasts(3)
    loss = ForecastLoss(0.5, along=along)
    torch.testing.assert_close(loss(pred, target), torch.stack([loss(pred[..., c], target[..., c]) for c in range(3)]).mean())


@pytest.mark.parametrize(("along", "pairs"), [("batch", "batch"), ("horizon", "targets"), ("both", "both")])
def test_labels_without_weight_may_be_missing(along: Along, pairs: Pairs) -> None:
    pred, target = make_forecasts(1)
    weight = (torch.rand(12, 7, 1) > 0.3).double()
    expected = GARLoss(pairs=pairs)(pred.squeeze(-1), target.squeeze(-1), mask=weight.squeeze(-1) > 0)
    target[weight == 0] = torch.nan
    torch.testing.assert_close(ForecastLoss(along=along)(pred, target, weight=weight), expected)


def test_an_unknown_direction_is_named() -> None:
    with pytest.raises(InputError, match="along='time' is unknown"):
        ForecastLoss(along="time")  # type: ignore[arg-type]
