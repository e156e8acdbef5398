"""GAR of forecasts, ``(batch, horizon)`` or ``(batch, horizon, channels)``, for darts, neuralforecast and loops of your own."""

from typing import Any, Literal

from torch import Tensor, nn

from gar.losses import GARLoss
from gar.validation import Pairs, check_choice

Along = Literal["batch", "horizon", "both"]
_PAIRS: dict[Along, Pairs] = {"batch": "batch", "horizon": "targets", "both": "both"}


class ForecastLoss(nn.Module):
    """GAR of forecasts: which of their differences are compared with those of the truth.

    Args:
        alpha: how evenly the components are weighted, from 0 (only the largest) to ``math.inf`` (all alike).
        along: ``"horizon"`` compares the steps of each forecast, so that it gets the shape of the curve right; ``"batch"`` compares
            the forecasts of a batch at each step ahead; ``"both"`` joins the components of both.
        options: further arguments of :class:`gar.losses.GARLoss`, such as ``components``, ``form`` or ``nan_policy``.

    Predictions come first: ``loss(pred, target)``, as in PyTorch and darts. The value is the mean over channels.

    Example:
        >>> loss = ForecastLoss(along="horizon")
        >>> target = torch.randn(32, 24, 2)  # 32 windows, 24 steps, 2 channels
        >>> bool(loss(target + 0.1 * torch.randn(32, 24, 2), target) < loss(torch.randn(32, 24, 2), target))
        True
    """

    def __init__(self, alpha: float = 1.0, *, along: Along = "both", **options: Any) -> None:
        super().__init__()
        check_choice(along, tuple(_PAIRS), "along")
        self.loss = GARLoss(alpha, pairs=_PAIRS[along], **options)

    def forward(self, pred: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Tensor:
        """Return the loss; ``weight`` has the shape of the labels, and 0 means that one does not count."""
        value: Tensor = self.loss(
            _by_channel(pred), _by_channel(target), sample_weight=None if weight is None else _by_channel(weight)
        )
        return value.mean()


def _by_channel(values: Tensor) -> Tensor:
    """Return ``(channels, batch, horizon)``: leading dimensions are independent."""
    return values.movedim(-1, 0) if values.ndim == 3 else values
