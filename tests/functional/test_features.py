"""Losses on features: what is particular to each."""

import math
from typing import Any

import pytest
import torch

from gar.functional import conr_loss, rank_n_contrast_loss, ranksim_loss
from gar.functional.features import FeatureRows, distances, quick_distances
from gar.functional.sorting import ascending
from tests import references as slow
from tests.cases import BY_NAME, Case, Inputs, make_inputs

ON_FEATURES = [BY_NAME[name] for name in ("rnc", "ranksim", "conr", "conr_as_published")]


def value_and_gradient(case: Case, inputs: Inputs, **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = inputs.features.detach().clone().requires_grad_()
    value = case.loss(inputs._replace(features=leaf), **more)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


@pytest.mark.parametrize("extra", ["nothing", "weight", "mask", "mask of models", "missing labels"])
@pytest.mark.parametrize("case", ON_FEATURES, ids=str)
def test_models_that_share_labels(case: Case, extra: str) -> None:
    """Two sources of three models each: labels that are expanded give what copies of them give."""
    inputs = make_inputs(2, 3, batch=8)
    target, weight, mask = inputs.target[:, :1].clone(), torch.randint(0, 3, (2, 1, 8)).double(), torch.rand(2, 1, 8) < 0.7
    extras: dict[str, dict[str, Any]] = {
        "nothing": {},
        "weight": {"sample_weight": weight.expand(2, 3, 8)},
        "mask": {"mask": mask.expand(2, 3, 8)},
        "mask of models": {"mask": torch.rand(2, 3, 8) < 0.7},
        "missing labels": {"nan_policy": "omit"},
    }
    more = extras[extra]
    if extra == "missing labels":
        target[0, 0, 2] = torch.nan
    copies = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in more.items()}
    shared = value_and_gradient(case, inputs._replace(target=target.expand(2, 3, 8, 2)), **more)
    expected = value_and_gradient(case, inputs._replace(target=target.expand(2, 3, 8, 2).clone()), **copies)
    torch.testing.assert_close(shared, expected, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("case", ON_FEATURES, ids=str)
def test_shared_labels_are_worked_on_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, label_gaps = [], FeatureRows.label_gaps

    def counted(rows: FeatureRows) -> torch.Tensor:
        calls.append(rows.target.shape)
        return label_gaps(rows)

    monkeypatch.setattr(FeatureRows, "label_gaps", counted)
    inputs = make_inputs(2, 3, batch=8)
    value_and_gradient(case, inputs._replace(target=inputs.target[:, :1].expand(2, 3, 8, 2)))
    assert calls == [(8, 2), (8, 2)]


def test_ranksim_has_a_second_derivative() -> None:
    """Ranks have none, but the similarities that they pull on do."""
    features, target = torch.randn(6, 3, dtype=torch.float64, requires_grad=True), torch.randn(6, dtype=torch.float64)
    first = torch.autograd.grad(ranksim_loss(features, target), features, create_graph=True)[0]
    expected = torch.autograd.grad(ranksim_loss(features, target), features)[0]
    torch.testing.assert_close(first.detach(), expected)
    assert torch.autograd.grad(first.square().sum(), features)[0].isfinite().all()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, the first time
def test_ranksim_has_no_forward_mode_and_says_so() -> None:
    with torch.autograd.forward_ad.dual_level():
        features = torch.autograd.forward_ad.make_dual(torch.randn(6, 3), torch.randn(6, 3))
        with pytest.raises(NotImplementedError, match="jvp"):
            ranksim_loss(features, torch.randn(6))


def test_conr_has_a_gradient_by_labels() -> None:
    """Through the weight of negatives, ``eta``."""
    inputs = make_inputs(targets=1)
    leaves = inputs.features.clone().requires_grad_(), inputs.target.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda z, y: conr_loss(z, inputs.pred, y, eta=0.5, temperature=1.0), leaves)


@pytest.mark.parametrize("case", ON_FEATURES, ids=str)
def test_no_models_at_all(case: Case) -> None:
    assert case.loss(make_inputs(0)).shape == (0,)


def test_rank_n_contrast_of_features_far_apart_in_single_precision() -> None:
    """Exponentials about and below the least normal number."""
    features, target = 60.0 * torch.randn(40, 2), torch.randn(40)
    single = torch.func.grad(lambda x: rank_n_contrast_loss(x, target, temperature=1.0))(features)
    leaf = features.clone().requires_grad_()
    rank_n_contrast_loss(leaf, target, temperature=1.0).backward()
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad, single, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_rank_n_contrast_of_wide_features(weighted: bool) -> None:
    """Over many dimensions the computed distance of a row from itself is not always zero; it must not enter the gradient."""
    features, target = torch.randn(32, 10_000), torch.randn(32)
    weight = torch.randint(1, 3, (32,)).float() if weighted else None
    assert not quick_distances(features).diagonal().any()

    def loss(features: torch.Tensor) -> torch.Tensor:
        return rank_n_contrast_loss(features, target, temperature=100.0, sample_weight=weight)

    expected = torch.func.grad(loss)(features.double()).float()
    for _ in range(5):
        unused = [torch.full((32, 32), 1e10) for _ in range(50)]  # memory that is allocated next holds these numbers
        del unused
        leaf = features.clone().requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(loss(leaf), leaf)[0], expected, rtol=1e-4, atol=1e-9)


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
        return torch.tensor([slow.ranks(row) for row in rows.tolist()], dtype=torch.float64)

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


@pytest.mark.parametrize("width", [4, 10_000])
def test_distances_of_coincident_rows(width: int) -> None:
    features = torch.randn(3, width, dtype=torch.float64)[[0, 1, 1, 2]].requires_grad_()
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
        return order.indices, order.first(), order.last(), order.assign(torch.tensor([10.0, 20.0, 30.0, 40.0, 50.0]))

    indices, first, last, assigned = torch.func.vmap(bounds)(values) if compiled else bounds(values)
    assert values.gather(-1, indices).tolist() == values.sort(-1).values.tolist()
    assert first.tolist() == [[0, 1, 2, 2, 4], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4]]
    assert last.tolist() == [[0, 1, 3, 3, 4], [4, 4, 4, 4, 4], [0, 1, 2, 3, 4]]
    assert assigned.tolist() == [[30, 10, 30, 20, 50], [10, 10, 10, 10, 10], [50, 40, 30, 20, 10]]


def test_quick_order_of_every_kind_of_number() -> None:
    """Single precision is sorted as integers: signs, zeros, infinities and tiny numbers included."""
    values = torch.tensor([[0.0, -0.0, 1e-45, -1e-45, torch.inf, -torch.inf, -2.5, 2.5, 1e38, -1e38]])
    order = ascending(values)
    assert values.gather(-1, order.indices).tolist() == values.sort(-1).values.tolist()
    assert order.first().tolist() == [[0, 1, 2, 3, 4, 4, 6, 7, 8, 9]]  # zero equals negative zero
