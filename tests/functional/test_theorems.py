"""The paper's four results, each tried numerically."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from gar.functional import aggregate, difference_loss, normalized_difference_loss


def test_difference_is_the_variance_of_errors() -> None:
    """Theorem 1: half the mean squared difference of all pairs of errors is their variance, dividing by N."""
    pred, target = torch.randn(50, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    error = pred - target
    pairs = 0.5 * (error[:, None] - error[None, :]).square().mean()
    torch.testing.assert_close(difference_loss(pred, target), pairs, rtol=1e-13, atol=0)
    torch.testing.assert_close(difference_loss(pred, target), error.var(correction=0), rtol=1e-13, atol=0)
    assert not torch.isclose(difference_loss(pred, target), error.var(correction=1), rtol=1e-3)


def test_normalised_difference_is_one_minus_pearson() -> None:
    """Corollary 3."""
    pred, target = torch.randn(50, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    rho = torch.corrcoef(torch.stack([pred, target]))[0, 1]
    torch.testing.assert_close(normalized_difference_loss(pred, target), 1 - rho, rtol=1e-12, atol=0)
    torch.testing.assert_close(normalized_difference_loss(-3 * pred + 7, target), 1 + rho, rtol=1e-12, atol=0)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0, 3.0])
def test_aggregation_is_the_maximum_of_the_kl_form(alpha: float) -> None:
    """Theorem 6: the maximum over p of sum p log L - alpha KL(p | uniform), found by a numerical optimiser."""
    losses = np.array([0.2, 1.5, 4.0, 0.7])

    def negative(logits: np.ndarray) -> tuple[float, np.ndarray]:
        """The value, and its gradient by the logits of p."""
        p = np.exp(logits - logits.max())
        p /= p.sum()
        gains = np.log(losses) - alpha * np.log(len(p) * p + 1e-300)
        return -float(p @ gains), -p * (gains - p @ gains)

    found = minimize(negative, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert float(aggregate(torch.from_numpy(losses), alpha=alpha)) == pytest.approx(-found.fun, abs=1e-8)


def test_limits_of_the_aggregation() -> None:
    losses = torch.tensor([0.2, 1.5, 4.0], dtype=torch.float64)
    limits = {0.0: 4.0, 1.0: float(losses.mean()), math.inf: float(losses.prod()) ** (1 / 3)}
    for alpha, expected in limits.items():
        assert float(aggregate(losses, alpha=alpha, form="exp")) == pytest.approx(expected, rel=1e-12)
    assert float(aggregate(losses, alpha=1e-3, form="exp")) == pytest.approx(limits[0.0], rel=1e-2)
    assert float(aggregate(losses, alpha=1e7, form="exp")) == pytest.approx(limits[math.inf], rel=1e-6)


def test_matching_differences_is_matching_gradients() -> None:
    """Theorem 4: fit a known function by its pairwise differences alone; its gradient comes with them, its offset does not."""
    torch.set_default_dtype(torch.float64)
    x = (2 * torch.rand(400, 2) - 1).requires_grad_()

    def truth(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(2 * x[:, 0]) + x[:, 0] * x[:, 1]

    model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))

    def alignment() -> float:
        (wanted,) = torch.autograd.grad(truth(x).sum(), x)
        (got,) = torch.autograd.grad(model(x).sum(), x)
        return float((got - wanted).square().mean() / wanted.square().mean())

    before = alignment()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = difference_loss(model(x.detach())[:, 0], truth(x).detach() + 100.0)
        loss.backward()
        return loss

    optimizer.step(step)
    assert float(step().detach()) < 1e-5
    assert before > 0.3
    assert alignment() < 0.003
    assert abs(float((model(x)[:, 0] - truth(x) - 100.0).mean().detach())) > 50  # differences know nothing of the offset
