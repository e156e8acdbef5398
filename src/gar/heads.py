"""Five heads for a matrix of labels, such as responses of genes to perturbations: level, and differences and correlation along rows
and along columns (Zhu and Jerby 2025).

A head of its own for each component need not compromise between them. The prediction takes from each what it is trained for: the
pattern of the correlation head, the scale of the difference head, the level of the level head.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.functional import difference_loss, mae_loss, normalized_difference_loss
from gar.validation import NanPolicy, check_choice, check_nan_policy, whole_number

_EPS = 1e-12
"""Added to variances, so that constant outputs can be divided by their deviation."""


class HeadOutputs(NamedTuple):
    """What :class:`FiveHeads` returns, ``(batch, targets)`` each: the heads, and predictions that are combined from them."""

    level: Tensor
    row_difference: Tensor
    row_correlation: Tensor
    column_difference: Tensor
    column_correlation: Tensor
    by_row: Tensor
    by_column: Tensor
    prediction: Tensor


class FiveHeads(nn.Module):
    """The last layer of a network that predicts a matrix: five linear heads, and the predictions that they give together.

    Along a row, the prediction is the correlation head, standardised over its targets, times the standard deviation of the
    difference head, plus the mean of the level head; along a column it is the same over the batch. The answer is the mean of both.

    Statistics of columns are those of the batch in training. Otherwise they are running ones, as in batch normalisation, so that a
    row can be predicted alone and does not depend on its neighbours.

    Args:
        in_features: width of the features that the network gives.
        targets: columns of the matrix, 2 or more.
        momentum: share of a batch in the running statistics.
        statistics: ``"running"``, or ``"batch"``, which takes those of the batch in evaluation too, as the authors do.

    Example:
        >>> heads = FiveHeads(16, 4)
        >>> outputs = heads(torch.randn(32, 16))
        >>> FiveHeadLoss()(outputs, torch.randn(32, 4)).backward()
        >>> heads.eval()(torch.randn(1, 16)).prediction.shape
        torch.Size([1, 4])
    """

    running: Tensor

    def __init__(
        self, in_features: int, targets: int, *, momentum: float = 0.1, statistics: Literal["running", "batch"] = "running"
    ) -> None:
        super().__init__()
        self.targets = whole_number(targets, "targets", least=2)
        check_choice(statistics, ("running", "batch"), "statistics")
        if not 0 < momentum <= 1:
            raise InputError(f"momentum={momentum!r}; expected a number above 0 and at most 1, such as 0.1")
        self.momentum, self.statistics = momentum, statistics
        self.linear = nn.Linear(in_features, 5 * self.targets)
        self.register_buffer("running", torch.tensor([0.0, 1.0, 1.0, 0.0]).reshape(4, 1, 1).repeat(1, 1, targets))

    def forward(self, features: Tensor) -> HeadOutputs:
        heads: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] = self.linear(features).unflatten(-1, (5, self.targets)).unbind(-2)
        level, row_difference, row_correlation, column_difference, column_correlation = heads
        by_row = _combined(row_correlation, *_statistics(level, row_difference, row_correlation, -1))
        by_column = _combined(column_correlation, *self._of_columns(level, column_difference, column_correlation))
        return HeadOutputs(*heads, by_row, by_column, 0.5 * (by_row + by_column))

    def _of_columns(self, level: Tensor, difference: Tensor, correlation: Tensor) -> Tensor:
        if not self.training and self.statistics == "running":
            return self.running
        if len(level) < 2:
            raise InputError(
                f"a batch of {len(level)} has no statistics of columns; train with 2 rows or more, and call eval() to predict one"
            )
        found = _statistics(level, difference, correlation, 0)
        if self.training:
            self.running.lerp_(found.detach().to(self.running), self.momentum)
        return found


def _statistics(level: Tensor, difference: Tensor, correlation: Tensor, dim: int) -> Tensor:
    """Return the mean of the level, the deviations of difference and correlation, and the mean of the latter, along a dimension."""
    deviations = [(values.var(dim, correction=0, keepdim=True) + _EPS).sqrt() for values in (difference, correlation)]
    return torch.stack([level.mean(dim, keepdim=True), *deviations, correlation.mean(dim, keepdim=True)])


def _combined(correlation: Tensor, level: Tensor, scale: Tensor, deviation: Tensor, mean: Tensor) -> Tensor:
    return (correlation - mean) / deviation * scale + level


class FiveHeadLoss(nn.Module):
    """The loss of :class:`FiveHeads`: each head is trained for its component, and their predictions by absolute errors.

    It is the sum of the absolute error of the level head, half the variance of errors of the difference heads, one minus Pearson's
    correlation of the correlation heads, along rows and along columns, and the absolute errors of the three predictions.
    """

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy = nan_policy

    def forward(self, outputs: HeadOutputs, target: Tensor) -> Tensor:
        policy = self.nan_policy
        levels = (outputs.level, outputs.by_row, outputs.by_column, outputs.prediction)
        loss = torch.stack([mae_loss(one, target, nan_policy=policy) for one in levels]).sum()
        rows, columns = (outputs.row_difference, outputs.row_correlation), (outputs.column_difference, outputs.column_correlation)
        for (difference, correlation), turn in ((rows, True), (columns, False)):
            labels, differences, correlations = (v.mT if turn else v for v in (target, difference, correlation))
            loss = loss + 0.5 * difference_loss(differences, labels, nan_policy=policy)
            loss = loss + normalized_difference_loss(correlations, labels, nan_policy=policy)
        return loss
