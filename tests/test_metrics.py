"""Metrics against scipy and scikit-learn, and what degenerate input gives."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats
from sklearn import metrics as sk
from torch import Tensor

from gar import metrics
from gar.errors import InputError
from gar.metrics import Evaluator, all_metrics
from gar.registry import METRICS

REFERENCE: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "mae": lambda f, y: float(sk.mean_absolute_error(y, f)),
    "rmse": lambda f, y: float(sk.root_mean_squared_error(y, f)),
    "pearson": lambda f, y: float(stats.pearsonr(f, y)[0]),
    "spearman": lambda f, y: float(stats.spearmanr(f, y)[0]),
    "r2": lambda f, y: float(sk.r2_score(y, f)),
}


def expected(pred: Tensor, target: Tensor) -> np.ndarray:
    """Mean over targets of one model's metrics, labels that are NaN left out."""
    columns = []
    for t in range(pred.shape[-1]):
        f, y = pred[:, t].double().numpy(), target[:, t].double().numpy()
        keep = ~np.isnan(y)
        if keep.any():
            columns.append([REFERENCE[name](f[keep], y[keep]) for name in METRICS])
    return np.mean(columns, 0)


def with_ties(*shape: int) -> Tensor:
    """Numbers of which many are equal."""
    return torch.randn(*shape, dtype=torch.float64).mul(3).round()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [torch.randn, with_ties])
@pytest.mark.parametrize("targets", [1, 3])
def test_all_metrics_of_a_stack(make: Callable[..., Tensor], targets: int, dtype: torch.dtype) -> None:
    pred, target = make(4, 50, targets).to(dtype), make(50, targets).to(dtype)
    values = all_metrics(pred, target)
    assert values.shape == (4, 5)
    for g in range(4):
        np.testing.assert_allclose(values[g], expected(pred[g], target), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_single_metrics(name: str) -> None:
    metric = getattr(metrics, name)
    pred, target = torch.randn(2, 3, 20, 2), torch.randn(2, 3, 20, 2)
    values = metric(pred, target)
    assert values.shape == (2, 3)
    want = expected(pred[1, 2], target[1, 2])[METRICS[name].index]
    assert float(values[1, 2]) == pytest.approx(want, rel=1e-12)
    assert float(metric(pred[0, 0, :, 0], target[0, 0, :, 0])) == pytest.approx(
        REFERENCE[name](pred[0, 0, :, 0].double().numpy(), target[0, 0, :, 0].double().numpy())
    )


def test_a_large_offset_costs_no_digits() -> None:
    pred, target = torch.randn(30, 1, dtype=torch.float64) + 1e6, torch.randn(30, 1, dtype=torch.float64) + 1e6
    np.testing.assert_allclose(all_metrics(pred, target), expected(pred, target), rtol=1e-8)


@pytest.mark.parametrize("targets", [1, 4])
def test_missing_labels(targets: int) -> None:
    pred, target = torch.randn(3, 40, targets), with_ties(40, targets)
    target[::5, 0] = torch.nan
    target[1::9, -1] = torch.nan
    values = all_metrics(pred, target)
    for g in range(3):
        np.testing.assert_allclose(values[g], expected(pred[g], target), rtol=1e-12)


def test_mask_is_a_subset() -> None:
    pred, target = torch.randn(2, 40, 2), torch.randn(2, 40, 2)
    mask = torch.rand(2, 40, 2) < 0.7
    gaps = target.where(mask, torch.nan)
    np.testing.assert_array_equal(all_metrics(pred, target, mask=mask), all_metrics(pred, gaps))
    assert torch.equal(metrics.mae(pred[0, :, 0], target[0, :, 0], mask=mask[0, :, 0]), metrics.mae(pred[0, :, 0], gaps[0, :, 0]))
    np.testing.assert_allclose(all_metrics(pred, gaps)[1], expected(pred[1], gaps[1]), rtol=1e-12)


def test_a_target_without_labels_is_left_out() -> None:
    pred, target = torch.randn(2, 10, 3), torch.randn(10, 3)
    gaps = target.clone()
    gaps[:, 1] = torch.nan
    assert torch.equal(all_metrics(pred, gaps), all_metrics(pred[..., [0, 2]], target[:, [0, 2]]))
    assert all_metrics(pred, gaps * torch.nan).isnan().all()
    assert all_metrics(pred[0, :, 0], gaps[:, 1]).isnan().all()
    assert all_metrics(pred[:, :0], target[:0]).isnan().all()


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e8, -3.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constant_predictions_have_no_correlation(constant: float, dtype: torch.dtype) -> None:
    values = all_metrics(torch.full((1, 33, 1), constant, dtype=dtype), torch.randn(33, 1))
    assert values[0, 2:4].tolist() == [0.0, 0.0]
    assert values.isfinite().all()


def test_constant_labels() -> None:
    target = torch.full((7, 1), 0.1)
    assert all_metrics(torch.randn(7, 1), target)[2:].tolist() == [0.0, 0.0, 0.0]
    assert all_metrics(target, target).tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert all_metrics(torch.ones(1, 1), torch.zeros(1, 1)).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_nan_predictions_give_nan_and_touch_no_neighbour() -> None:
    pred, target = torch.randn(3, 20, 1), torch.randn(20, 1)
    clean = all_metrics(pred, target)
    pred[1, 4] = torch.nan
    values = all_metrics(pred, target)
    assert values[1].isnan().all()
    assert torch.equal(values[[0, 2]], clean[[0, 2]])
    pred[1] = torch.nan
    assert all_metrics(pred, target)[1].isnan().all()
    pred[1, 4] = torch.inf
    assert all_metrics(pred, target)[1, 2].isnan()


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=12), st.integers(0, 2**32 - 1))
def test_spearman_with_any_ties(values: list[int], seed: int) -> None:
    target = np.random.default_rng(seed).integers(0, 4, len(values)).astype(float)
    mine = float(metrics.spearman(torch.tensor(values, dtype=torch.float64), torch.from_numpy(target)))
    if len(set(values)) == 1 or len(set(target)) == 1:
        assert mine == 0.0
    else:
        assert mine == pytest.approx(REFERENCE["spearman"](np.array(values, float), target), abs=1e-12)


def test_models_do_not_depend_on_their_neighbours() -> None:
    pred, evaluate = (
        with_ties(9, 37, 2).float() + torch.randn(9, 37, 2) * (torch.arange(9) > 4)[:, None, None],
        Evaluator(with_ties(37, 2)),
    )
    whole = evaluate(pred)
    for g in range(9):
        assert torch.equal(evaluate(pred[g : g + 1])[0], whole[g])


def test_perfect_and_reversed() -> None:
    target = torch.randn(30, 2)
    assert torch.allclose(all_metrics(target, target), torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0]).double())
    assert torch.allclose(all_metrics(-target, target)[2:4], torch.tensor([-1.0, -1.0]).double())


def test_labels_of_any_kind() -> None:
    """Such as come out of a model in half precision, or are computed by one."""
    pred, target, weight = torch.randn(3, 9).unbind()
    half = metrics.mae(pred.bfloat16(), target.bfloat16(), weight=weight.abs().bfloat16())
    whole = metrics.mae(pred.bfloat16().float(), target.bfloat16().float(), weight=weight.abs().bfloat16().float())
    assert half == whole
    assert metrics.mae(pred, target.clone().requires_grad_()) == metrics.mae(pred, target)


def test_errors() -> None:
    with pytest.raises(InputError, match="pred has shape"):
        all_metrics(torch.zeros(3), torch.zeros(3, 1))
    with pytest.raises(InputError, match="mask has shape"):
        all_metrics(torch.zeros(3), torch.zeros(3), mask=torch.ones(2, dtype=torch.bool))
    with pytest.raises(InputError, match="infinite"):
        Evaluator(torch.tensor([1.0, torch.inf]))
    with pytest.raises(InputError, match="single number"):
        Evaluator(torch.tensor(1.0))


@pytest.mark.parametrize("ties", [False, True])
def test_integer_weights_are_copies(ties: bool) -> None:
    """Every metric of rows that count by weight equals that of the rows repeated, missing labels and ties included."""
    pred, target = torch.randn(3, 30, 2), torch.randn(30, 2)
    if ties:
        pred, target = pred.round(), target.round()
    target[::7, 1] = torch.nan
    counts = torch.randint(0, 4, (30,))
    copies = metrics.all_metrics(pred.repeat_interleave(counts, 1), target.repeat_interleave(counts, 0))
    torch.testing.assert_close(metrics.all_metrics(pred, target, weight=counts), copies, rtol=1e-10, atol=1e-12)


def test_weights_of_wrong_shape_or_sign() -> None:
    with pytest.raises(InputError, match=r"weight has shape \(3,\).*\(4,\)"):
        metrics.mae(torch.zeros(4), torch.zeros(4), weight=torch.ones(3))
    with pytest.raises(InputError, match="-1"):
        metrics.mae(torch.zeros(4), torch.zeros(4), weight=-torch.ones(4))
