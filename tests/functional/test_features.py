"""Losses on features: what is particular to each."""

import math

import pytest
import torch

from gar.functional import conr_loss, rank_n_contrast_loss, ranksim_loss
from gar.functional._features import ascending, distances
from tests import references as slow


def test_rank_n_contrast_with_ties_everywhere() -> None:
    features, target = torch.randn(9, 3, dtype=torch.float64), torch.tensor([0.0, 1, 1, 2, 2, 2, 0, 3, 3], dtype=torch.float64)
    expected = slow.rank_n_contrast(features.numpy(), target[:, None].numpy(), 1.5)
    assert float(rank_n_contrast_loss(features, target, temperature=1.5)) == pytest.approx(expected, rel=1e-10)


def test_rank_n_contrast_does_not_underflow() -> None:
    """Distances of thousands over the temperature: exp() of them is zero even in double precision."""
    features = torch.tensor([[0.0], [4000.0], [9000.0]], dtype=torch.float64, requires_grad=True)
    loss = rank_n_contrast_loss(features, torch.tensor([0.0, 2.0, 1.0], dtype=torch.float64), temperature=1.0)
    loss.backward()
    # Row 0 has its label neighbour 9000 away and the other 4000; row 1, 5000 and 4000; row 2 two neighbours, 9000 and 5000 away.
    assert float(loss.detach()) == pytest.approx((5000 + 1000 + 4000) / 6, rel=1e-12)
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_ranksim_backward_is_the_black_box_interpolation() -> None:
    """-(rk(a) - rk(a + lambda g)) / lambda at the similarities, then the chain rule."""
    features = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    target = torch.randn(6, dtype=torch.float64)
    strength = 0.8
    ranksim_loss(features, target, interpolation=strength).backward()
    leaf = features.detach().clone().requires_grad_()
    unit = leaf / leaf.norm(dim=1, keepdim=True)
    similarity = unit @ unit.T

    def ranks(rows: torch.Tensor) -> torch.Tensor:
        return torch.tensor([slow.places(row) for row in rows.tolist()], dtype=torch.float64)

    labels = ranks(-(target[:, None] - target[None, :]).abs())
    incoming = 2 * (ranks(similarity) - labels) / 6
    outgoing = -(ranks(similarity) - ranks(similarity.detach() + strength * incoming)) / strength
    similarity.backward(outgoing)
    assert features.grad is not None
    torch.testing.assert_close(features.grad, leaf.grad)
    assert features.grad.any()


def test_ranksim_takes_one_row_of_each_label() -> None:
    """The value is that of some choice of one row per label, every choice occurs, and a generator repeats it."""
    features, target = torch.randn(5, 2, dtype=torch.float64), torch.tensor([0.0, 0.0, 1.0, 2.0, 2.0], dtype=torch.float64)
    choices = {
        round(slow.ranksim(features[rows].numpy(), target[rows][:, None].numpy()), 10)
        for rows in ([a, 2, b] for a in (0, 1) for b in (3, 4))
    }
    generator = torch.Generator().manual_seed(1)
    drawn = [round(float(ranksim_loss(features, target, generator=generator)), 10) for _ in range(60)]
    assert set(drawn) == choices
    again = torch.Generator().manual_seed(1)
    assert [round(float(ranksim_loss(features, target, generator=again)), 10) for _ in range(60)] == drawn


def test_ranksim_of_equal_rows_of_several_targets() -> None:
    features = torch.randn(4, 3, dtype=torch.float64)
    target = torch.tensor([[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)  # rows 0 and 3 are alike
    features[3] = features[0]
    expected = slow.ranksim(features[:3].numpy(), target[:3].numpy())
    assert float(ranksim_loss(features, target)) == pytest.approx(expected, rel=1e-12)


def test_conr_counts_excluded_pairs_as_the_published_code_does() -> None:
    """Masking before the exponential turns every pair that is no positive into exp(0) = 1 in the denominator."""
    features = torch.randn(8, 3, dtype=torch.float64)
    pred, target = torch.randn(2, 8, dtype=torch.float64)
    q = torch.nn.functional.normalize(features, dim=1)
    gap, near = (target[:, None] - target[None]).abs(), (pred[:, None] - pred[None]).abs() <= 1
    positive, negative = (gap <= 1) & ~torch.eye(8, dtype=torch.bool), (gap > 1) & near
    logits = q @ q.T / 0.07
    denominator = (logits * positive).exp().sum(1) + (negative * (0.01 * gap).exp() * logits.exp()).sum(1)
    rows = ((denominator.log()[:, None] - logits) * positive).sum(1) / positive.sum(1).clamp(min=1)
    expected = torch.where(positive.any(1) & negative.any(1), rows, 0.0).mean()
    torch.testing.assert_close(conr_loss(features, pred, target, count_excluded=True), expected)


def test_conr_gives_predictions_no_gradient() -> None:
    pred = torch.randn(6, requires_grad=True)
    loss = conr_loss(torch.randn(6, 3, requires_grad=True), pred, torch.randn(6))
    loss.backward()
    assert pred.grad is None


def test_distances_of_coincident_rows() -> None:
    features = torch.randn(3, 4, dtype=torch.float64)[[0, 1, 1, 2]].requires_grad_()
    between = distances(features)
    torch.testing.assert_close(between, torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist"))
    assert float(between[1, 2].detach()) == 0.0
    between.sum().backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("compiled", [False, True])
def test_order_with_groups_of_equal_values(compiled: bool) -> None:
    values = torch.tensor([[3.0, 1.0, 3.0, 2.0, math.inf], [1.0, 1.0, 1.0, 1.0, 1.0], [5.0, 4.0, 3.0, 2.0, 1.0]])

    def bounds(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order = ascending(rows)
        return order.places, order.first(), order.last()

    places, first, last = torch.func.vmap(bounds)(values) if compiled else bounds(values)
    assert values.gather(-1, places).tolist() == values.sort(-1).values.tolist()
    assert first.tolist() == [[0, 1, 2, 2, 4], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4]]
    assert last.tolist() == [[0, 1, 3, 3, 4], [4, 4, 4, 4, 4], [0, 1, 2, 3, 4]]


def test_quick_order_of_every_kind_of_number() -> None:
    """Single precision is sorted as integers: signs, zeros, infinities and tiny numbers included."""
    values = torch.tensor([[0.0, -0.0, 1e-45, -1e-45, torch.inf, -torch.inf, -2.5, 2.5, 1e38, -1e38]])
    places = ascending(values).places
    assert values.gather(-1, places).tolist() == values.sort(-1).values.tolist()
