"""GAR's own: its variants, its closed form, its precision."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

import gar
from gar import GARLoss
from gar.functional import aggregate, gar_loss, normalized_difference_loss
from gar.functional.gar import GARFunction, GARSettings
from gar.functional.moments import SmallBatches
from gar.validation import as_columns
from tests import references as slow
from tests.cases import make_inputs


def batch(n: int = 64, noise: float = 0.5, offset: float = 0.0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    target = torch.randn(n, dtype=torch.float64) + offset
    return (target + noise * torch.randn(n, dtype=torch.float64)).to(dtype), target.to(dtype)


def slope(pred: Tensor, target: Tensor, **more: object) -> Tensor:
    leaf = pred.clone().requires_grad_()
    gar_loss(leaf, target, **more).sum().backward()  # type: ignore[arg-type]
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize(
    "components",
    [("mae",), ("diff",), ("diffnorm",), ("mae", "diff"), ("mae", "diffnorm"), ("diff", "diffnorm"), ("diffnorm", "mae", "diff")],
)
@pytest.mark.parametrize("form", ["log", "exp"])
@pytest.mark.parametrize("pairs", ["batch", "targets"])
def test_closed_form_is_the_plain_form(components: tuple[str, ...], form: str, pairs: str) -> None:
    """Value and gradient of the quick path equal autograd through the equations, with weights, masks and several models."""
    inputs = make_inputs(2, batch=9, targets=4)
    alpha = torch.tensor([0.3, math.inf], dtype=torch.float64)
    weights = tuple(0.5 + 0.25 * k for k in range(len(components)))
    settings = GARSettings(components=components, weights=weights, form=form, pairs=pairs, correction=1)  # type: ignore[arg-type]
    weight, mask = torch.rand(2, 9, dtype=torch.float64), torch.rand(2, 9, 4) > 0.2
    leaf = inputs.pred.clone().requires_grad_()
    plain = GARFunction(settings, inputs.target, alpha, weight, mask).plain(leaf)
    plain.sum().backward()
    quick = inputs.pred.clone().requires_grad_()
    value = GARLoss(alpha, components=components, weights=weights, form=form, pairs=pairs, correction=1)(  # type: ignore[arg-type]
        quick, inputs.target, sample_weight=weight, mask=mask
    )
    value.sum().backward()
    torch.testing.assert_close(value, plain, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(quick.grad, leaf.grad, rtol=1e-11, atol=1e-13)


def test_components_are_joined_by_the_aggregation() -> None:
    pred, target = batch()
    parts = GARLoss().components_of(pred, target)
    assert list(parts) == ["mae", "diff", "diffnorm"]
    error = pred - target
    torch.testing.assert_close(parts["mae"], error.abs().mean())
    torch.testing.assert_close(parts["diff"], error.var(correction=0))
    torch.testing.assert_close(parts["diffnorm"], 1 - torch.corrcoef(torch.stack([pred, target]))[0, 1])
    expected = aggregate(list(parts.values()), alpha=0.7, eps=1e-7)
    torch.testing.assert_close(gar_loss(pred, target, alpha=0.7), expected)


def test_weights_give_the_half_variance_of_the_authors_code() -> None:
    pred, target = batch()
    parts = [float(value) for value in GARLoss().components_of(pred, target).values()]
    halved = math.log(slow.power_mean([parts[0] + 1e-7, parts[1] / 2 + 1e-7, parts[2] + 1e-7], 2.0))
    assert float(gar_loss(pred, target, alpha=2.0, weights=(1, 0.5, 1))) == pytest.approx(halved, rel=1e-12)


def test_correction_standardises_by_n_minus_1() -> None:
    """As the authors' code: half the mean square of the difference of two columns standardised with n - 1."""
    pred, target = batch(9)
    standard = [(x - x.mean()) / x.std(correction=1) for x in (pred, target)]
    expected = 0.5 * (standard[0] - standard[1]).square().mean()
    torch.testing.assert_close(normalized_difference_loss(pred, target, correction=1), expected)
    torch.testing.assert_close(gar_loss(pred, target, components=("diffnorm",), correction=1, form="exp", eps=1e-12), expected)


def test_pairs_along_targets_are_rows_transposed() -> None:
    inputs = make_inputs(batch=5, targets=6)
    along_rows = gar_loss(inputs.pred, inputs.target, pairs="targets")
    torch.testing.assert_close(along_rows, gar_loss(inputs.pred.T.contiguous(), inputs.target.T.contiguous()))


def test_row_weights_along_targets_are_copies_of_rows() -> None:
    inputs = make_inputs(batch=4, targets=5)
    counts = torch.tensor([0, 1, 3, 2])
    copies = gar_loss(inputs.pred.repeat_interleave(counts, 0), inputs.target.repeat_interleave(counts, 0), pairs="targets")
    torch.testing.assert_close(gar_loss(inputs.pred, inputs.target, pairs="targets", sample_weight=counts), copies)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0, 10.0, 100.0, 0.0, math.inf])
@given(exponents=st.lists(st.floats(-6, 12), min_size=3, max_size=3))
def test_aggregation_never_overflows_in_single_precision(alpha: float, exponents: list[float]) -> None:
    values = [10.0**e for e in exponents]
    losses = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    value = aggregate(losses, alpha=alpha)
    value.backward()
    exact = aggregate(torch.tensor(values, dtype=torch.float64), alpha=alpha)
    torch.testing.assert_close(value.double(), exact, rtol=2e-6, atol=2e-5)
    assert losses.grad is not None
    assert losses.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_aggregation_of_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    losses = torch.tensor([3e-4, 2.0, 700.0], dtype=dtype, requires_grad=True)
    value = aggregate(losses, alpha=0.1)
    (65536.0 * value).backward()
    single = losses.detach().float().requires_grad_()
    expected = aggregate(single, alpha=0.1)
    (65536.0 * expected).backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert losses.grad is not None
    assert single.grad is not None
    assert torch.equal(losses.grad, single.grad.to(dtype))


def test_aggregation_forgives_what_eps_makes_up_for() -> None:
    below = torch.tensor([-1e-8, 1.0], dtype=torch.float64)
    assert float(aggregate(below, eps=1e-7)) == pytest.approx(math.log(0.5), rel=1e-6)
    assert torch.func.grad(aggregate)(-below).isfinite().all()  # while tracing values are not looked at
    assert aggregate(torch.tensor([torch.nan, 1.0])).isnan()


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0, 10.0, 100.0, 0.0, math.inf])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_single_precision_follows_double(alpha: float, scale: float) -> None:
    pred, target = (scale * x for x in batch(256))
    exact, slopes = gar_loss(pred, target, alpha=alpha), slope(pred, target, alpha=alpha)
    torch.testing.assert_close(gar_loss(pred.float(), target.float(), alpha=alpha).double(), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        slope(pred.float(), target.float(), alpha=alpha).double(), slopes, rtol=1e-4, atol=1e-4 * float(slopes.abs().max())
    )


def test_large_offsets_do_not_cancel() -> None:
    """Labels around 1e6 with spread 1: the single-precision loss equals that of the same numbers in double precision."""
    for offset in (1e6, -1e6):
        pred, target = batch(512, offset=offset, dtype=torch.float32)
        exact = gar_loss(pred.double(), target.double())
        torch.testing.assert_close(gar_loss(pred, target).double(), exact, rtol=1e-3, atol=0)
        wanted = slope(pred.double(), target.double())
        torch.testing.assert_close(slope(pred, target).double(), wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))
        start = torch.randn(512)  # predictions of an untrained network: all errors near 1e6
        exact = gar_loss(start.double(), target.double())
        torch.testing.assert_close(gar_loss(start, target).double(), exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("rows", [2, 7, 32, SmallBatches.LARGEST, SmallBatches.LARGEST + 1])
@pytest.mark.parametrize("more", [{}, {"form": "exp"}, {"components": ("diff",), "weights": (0.5,)}, {"correction": 1}])
def test_stacks_of_small_batches(rows: int, more: dict[str, object]) -> None:
    """Value and gradient in single precision follow double precision, and are the same bits for a model alone."""
    pred, target = (values.reshape(12, rows, 1) for values in batch(12 * rows, offset=3e4, dtype=torch.float32))
    pred[3], pred[4], target[5] = 1.0, target[4], 2.0  # constant predictions, a perfect fit, constant labels
    alpha = torch.tensor([0.0, 0.1, 1.0, 10.0, math.inf, 2.0] * 2)
    expected = slope(pred.double(), target.double(), alpha=alpha.double(), **more)
    torch.testing.assert_close(slope(pred, target, alpha=alpha, **more).double(), expected, rtol=2e-5, atol=1e-6)
    value = gar_loss(pred, target, alpha=alpha, **more)  # type: ignore[arg-type]
    alone = [gar_loss(pred[g : g + 1], target[g : g + 1], alpha=alpha[g : g + 1], **more) for g in range(12)]  # type: ignore[arg-type]
    assert value.dtype is torch.float32
    assert torch.equal(value, torch.cat(alone))
    in_double = gar_loss(pred.double(), target.double(), alpha=alpha.double(), **more)  # type: ignore[arg-type]
    torch.testing.assert_close(value.double(), in_double, rtol=2e-5, atol=1e-5)


def test_a_model_that_fails_is_alone() -> None:
    pred, target = (values.reshape(4, 20, 1) for values in batch(80, dtype=torch.float32))
    whole = slope(pred, target)
    pred[1, 3], pred[2, 5] = math.nan, math.inf
    broken = slope(pred, target)
    assert broken[[1, 2]].isnan().any(1).all()
    assert torch.equal(broken[[0, 3]], whole[[0, 3]])


def test_a_nearly_perfect_fit_keeps_its_digits() -> None:
    """1 - rho of 1e-9 is below the rounding unit of float32, and still right to three digits, with its gradient."""
    pred, target = batch(256, noise=3e-5, dtype=torch.float32)
    exact = float(normalized_difference_loss(pred.double(), target.double()))
    assert 1e-10 < exact < 1e-8
    assert float(normalized_difference_loss(pred, target)) == pytest.approx(exact, rel=1e-3)
    wanted = slope(pred.double(), target.double(), components=("diffnorm",), eps=1e-12)
    got = slope(pred, target, components=("diffnorm",), eps=1e-12)
    torch.testing.assert_close(got.double(), wanted, rtol=1e-2, atol=1e-3 * float(wanted.abs().max()))


@given(value=st.floats(-1e6, 1e6), n=st.integers(1, 300), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_constant_is_seen_as_constant(value: float, n: int, dtype: torch.dtype) -> None:
    """Whatever the rounding of its mean, a constant column has no correlation: its part is 1, without gradient."""
    constant, other = torch.full((n,), value, dtype=dtype), torch.randn(n, dtype=dtype)
    for pred, target in ((constant, other), (other, constant)):
        assert float(gar_loss(pred, target, components=("diffnorm",), form="exp")) == pytest.approx(1.0, rel=1e-6)
        assert not slope(pred, target, components=("diffnorm",)).any()


def test_what_a_degenerate_batch_gives() -> None:
    one = GARLoss().components_of(torch.tensor([3.0]), torch.tensor([1.0]))
    assert [float(v) for v in one.values()] == [2.0, 0.0, 1.0]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, inside Dynamo
@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("form", ["log", "exp"])
@pytest.mark.parametrize("pairs", ["batch", "targets"])
def test_where_nothing_counts_the_loss_is_zero(shape: tuple[int, ...], form: str, pairs: str) -> None:
    """A batch without labels must not look like a perfect fit in the mean of an epoch; models beside it are not affected."""
    if pairs == "targets" and shape[1:] in ((), (1,)):
        pytest.skip("a single target has no pairs along targets")
    pred, target, mask = torch.randn(shape), torch.full(shape, torch.nan), torch.zeros(shape, dtype=torch.bool)
    models = shape[:-2]
    if models:
        target[1] = torch.randn(shape[1:])
        mask[1] = True
    empty = torch.arange(models[0]) == 0 if models else torch.tensor(True)
    alike = {"alpha": 0.5, "form": form, "pairs": pairs}
    torch.compiler.reset()
    losses: list[Callable[[Tensor], Tensor]] = [
        lambda f: gar_loss(f, target, nan_policy="omit", **alike),  # type: ignore[arg-type]
        lambda f: gar_loss(f, target, mask=mask, **alike),  # type: ignore[arg-type]
        lambda f: gar_loss(f, target.nan_to_num(), sample_weight=mask.double(), **alike),  # type: ignore[arg-type]
        lambda f: torch.func.vmap(partial(gar_loss, nan_policy="omit", **alike))(f[None], target[None])[0],  # type: ignore[arg-type]
        lambda f: torch.compile(gar_loss, backend="aot_eager", fullgraph=True)(f, target, nan_policy="omit", **alike),  # type: ignore[arg-type]
    ]
    for loss in losses:
        leaf = pred.clone().requires_grad_()
        value = loss(leaf)
        value.sum().backward()
        assert leaf.grad is not None
        assert torch.equal(value == 0, empty)
        assert torch.equal(leaf.grad.reshape(*models, -1).any(-1), ~empty)


def test_the_log_form_is_negative_near_a_good_fit() -> None:
    pred, target = batch(noise=0.01)
    assert float(gar_loss(pred, target)) < 0 < float(gar_loss(pred, target, form="exp"))


def test_gradient_by_target_and_weight() -> None:
    inputs = make_inputs(batch=6)
    weight = torch.rand(6, dtype=torch.float64, requires_grad=True)
    leaves = (inputs.pred.clone().requires_grad_(), inputs.target.clone().requires_grad_(), weight)
    assert torch.autograd.gradcheck(lambda f, y, w: gar_loss(f, y, alpha=0.5, sample_weight=w), leaves)


def test_backward_twice_and_scaled() -> None:
    pred, target = batch()
    leaf = pred.clone().requires_grad_()
    loss = gar_loss(leaf, target)
    loss.backward(retain_graph=True)
    assert leaf.grad is not None
    first = leaf.grad.clone()
    (3.0 * loss).backward()
    torch.testing.assert_close(leaf.grad, 4 * first)


def test_integer_labels_and_mixed_precision() -> None:
    pred = torch.tensor([1.5, 2.0, 4.0])
    expected = gar_loss(pred, torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(gar_loss(pred, torch.tensor([1, 2, 3])), expected)
    wider = gar_loss(pred, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert wider.dtype == torch.float64
    torch.testing.assert_close(wider.float(), expected)


def test_columns_of_a_strided_view() -> None:
    pred, target = batch(40)
    torch.testing.assert_close(gar_loss(pred[::2], target[::2]), gar_loss(pred[::2].contiguous(), target[::2].contiguous()))
    assert as_columns(pred[:, None], target[:, None]).pred.shape == (40,)


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own, inside Inductor
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the same, inside Dynamo
def test_compiled_by_inductor() -> None:
    """What torch.compile makes of it in earnest, values and gradients."""
    pred, target = batch(1000, dtype=torch.float32)
    torch.compiler.reset()
    compiled = torch.compile(GARLoss(alpha=0.5), fullgraph=True)
    leaf = pred.clone().requires_grad_()
    compiled(leaf, target).backward()
    torch.testing.assert_close(leaf.grad, slope(pred, target, alpha=0.5), rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(compiled(pred, target), gar_loss(pred, target, alpha=0.5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(8,), (8, 1), (8, 2), (3, 8, 2)], ids=str)
@pytest.mark.parametrize("form", ["log", "exp"])
def test_no_number_is_fetched_from_another_device(shape: tuple[int, ...], form: str) -> None:
    """The meta device has shapes but no numbers: whatever would wait for a GPU, or assume the CPU, fails on it."""
    leaf, target = torch.randn(shape, device="meta", requires_grad=True), torch.randn(shape, device="meta")
    mask = torch.ones(shape, dtype=torch.bool, device="meta")
    for more in ({}, {"mask": mask}):
        value = gar_loss(leaf, target, alpha=0.5, form=form, **more)  # type: ignore[arg-type]
        value.sum().backward()
        assert value.shape == shape[:-2]
        assert leaf.grad is not None
        assert leaf.grad.shape == shape
        assert leaf.grad.device.type == "meta"


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_parallel_predictions_of_any_spread(rows: int, alpha: float) -> None:
    """One minus a correlation of one is never below zero by rounding, however wide predictions spread against labels: two rows are
    always parallel, and the last batch of an epoch may have no more."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.exp(2.0 * torch.randn(2000, 1, 1, generator=generator))
    target = torch.randn(2000, rows, 1, generator=generator)
    pred = (spread * target).requires_grad_()
    for loss in (GARLoss(alpha)(pred, target), torch.func.vmap(GARLoss(alpha))(pred, target)):
        (slope,) = torch.autograd.grad(loss.sum(), pred)
        assert loss.isfinite().all()
        assert slope.isfinite().all()


@pytest.mark.parametrize("pairs", ["batch", "targets"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_value_and_gradient_without_autograd(pairs: str, dtype: torch.dtype) -> None:
    """The method gives what backward gives, with weights and missing labels, whether gradients are enabled or not."""
    inputs = make_inputs(2, batch=9, targets=3)
    pred, target = inputs.pred.to(dtype), inputs.target.to(dtype)
    target[0, 2, 1] = math.nan
    loss = GARLoss(torch.tensor([0.3, 2.0]), pairs=pairs, nan_policy="omit")  # type: ignore[arg-type]
    weight, mask = torch.rand(2, 9), torch.rand(2, 9, 3) > 0.2
    leaf = pred.clone().requires_grad_()
    expected = loss(leaf, target, sample_weight=weight, mask=mask)
    expected.sum().backward()
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            value, gradient = loss.value_and_gradient(leaf, target, sample_weight=weight, mask=mask)
        assert torch.equal(value, expected.detach())
        assert leaf.grad is not None
        torch.testing.assert_close(gradient, leaf.grad, rtol=1e-3 if dtype is torch.float16 else 1e-6, atol=1e-7)
        assert not value.requires_grad
        assert not gradient.requires_grad
    with pytest.raises(gar.InputError, match="value_and_gradient is of the batch of one process; leave out process_group"):
        GARLoss(process_group="world").value_and_gradient(pred, target)
