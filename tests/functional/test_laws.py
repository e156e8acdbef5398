"""Laws that every loss obeys: one list of losses, one suite."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor
from torch.autograd import forward_ad

from tests.cases import CASES, Case, Inputs, make_inputs

_CLOSED_FORMS = ("gar", "rnc", "conr", "ranksim")  # whose gradient is not left to autograd

every_loss = pytest.mark.parametrize("case", CASES, ids=str)
every_smooth_loss = pytest.mark.parametrize("case", [case for case in CASES if case.smooth], ids=str)
every_closed_form = pytest.mark.parametrize("case", [case for case in CASES if case.name.startswith(_CLOSED_FORMS)], ids=str)
every_loss_of_predictions = pytest.mark.parametrize("case", [case for case in CASES if case.perfect is not None], ids=str)


def assert_close(one: Tensor, other: Tensor | float, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(one, torch.as_tensor(other, dtype=one.dtype), rtol=tolerance, atol=tolerance)


def gradient(case: Case, inputs: Inputs, **more: Any) -> Tensor:
    leaf = case.learned(inputs).detach().clone().requires_grad_()
    case.loss(case.with_learned(inputs, leaf), **more).sum().backward()
    assert leaf.grad is not None
    return leaf.grad


@every_loss
@given(batch=st.integers(2, 9), targets=st.integers(1, 3), scale=st.sampled_from([0.01, 1.0, 30.0]), seed=st.integers(0, 99))
def test_equals_its_slow_definition(case: Case, batch: int, targets: int, scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    inputs = make_inputs(batch=batch, targets=targets)
    inputs = inputs._replace(pred=inputs.pred * scale, target=inputs.target * scale)
    for value in case.values:
        expected = case.reference(inputs, value if case.parameter else None)
        assert_close(case.loss(inputs, value), expected, 1e-8)


@every_loss
def test_one_dimension_is_one_target(case: Case) -> None:
    inputs = make_inputs(targets=1)
    flat = inputs._replace(pred=inputs.pred[:, 0], target=inputs.target[:, 0])
    assert_close(case.loss(flat), case.loss(inputs), 1e-14)


@every_loss
def test_leading_dimensions_are_independent_models(case: Case) -> None:
    inputs = make_inputs(2, 3)
    values = torch.tensor([case.values[k % len(case.values)] for k in range(6)], dtype=torch.float64).reshape(2, 3)
    together = case.loss(inputs, values) if case.parameter else case.loss(inputs)
    assert together.shape == (2, 3)
    all_gradients = gradient(case, inputs, value=values) if case.parameter else gradient(case, inputs)
    for index in np.ndindex(2, 3):
        alone = Inputs(*(part[index] for part in inputs))
        value = float(values[index]) if case.parameter else None
        assert_close(together[index], case.loss(alone, value), 1e-12)
        assert_close(all_gradients[index], gradient(case, alone, value=value), 1e-12)


@every_smooth_loss
@pytest.mark.parametrize("targets", [1, 2])
def test_gradients_and_their_gradients(case: Case, targets: int) -> None:
    inputs = make_inputs(targets=targets)
    leaf = case.learned(inputs).clone().requires_grad_()
    for value in case.values[:4]:

        def loss(x: Tensor, value: float = value) -> Tensor:
            return case.loss(case.with_learned(inputs, x), value)

        assert torch.autograd.gradcheck(loss, (leaf,))
        assert torch.autograd.gradgradcheck(loss, (leaf,))


@every_smooth_loss
def test_gradients_by_weights(case: Case) -> None:
    """Also where the closed form, which has none, would be quicker."""
    inputs = make_inputs()
    leaves = case.learned(inputs).clone().requires_grad_(), (0.5 + 0.4 * torch.rand(7, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: case.loss(case.with_learned(inputs, x), sample_weight=w), leaves)


@pytest.mark.parametrize("case", [case for case in CASES if case.smooth and case.parameter], ids=str)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own way with a Function
def test_gradients_by_the_parameter(case: Case, compiled: bool) -> None:
    inputs = make_inputs()

    def loss(x: Tensor, value: Tensor) -> Tensor:
        return case.loss(case.with_learned(inputs, x), value)

    torch.compiler.reset()
    tried = torch.compile(loss, fullgraph=True, backend="aot_eager") if compiled else loss
    value = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(tried, (case.learned(inputs).clone().requires_grad_(), value))


@every_smooth_loss
@pytest.mark.parametrize("backward_too", [False, True])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, the first time
def test_forward_mode(case: Case, backward_too: bool) -> None:
    """A derivative that travels with the values is that of the backward pass."""
    inputs = make_inputs()
    learned = case.learned(inputs).clone().requires_grad_(backward_too)
    direction = torch.randn_like(learned)
    with forward_ad.dual_level():
        dual = case.loss(case.with_learned(inputs, forward_ad.make_dual(learned, direction)))
        tangent = forward_ad.unpack_dual(dual).tangent
    assert tangent is not None
    assert_close(tangent.detach().double(), (gradient(case, inputs) * direction).sum())


@every_loss
def test_order_of_rows_does_not_matter(case: Case) -> None:
    inputs = make_inputs(batch=8)
    shuffle = torch.randperm(8)
    assert_close(case.loss(Inputs(*(part[shuffle] for part in inputs))), case.loss(inputs), 1e-12)


@every_loss
@given(counts=st.lists(st.integers(0, 3), min_size=6, max_size=6).filter(lambda c: sum(k > 0 for k in c) > 2))
def test_integer_weights_are_copies(case: Case, counts: list[int]) -> None:
    inputs = make_inputs(batch=6)
    weight = torch.tensor(counts, dtype=torch.float64)
    copies = Inputs(*(part.repeat_interleave(torch.tensor(counts), 0) for part in inputs))
    assert_close(case.loss(inputs, sample_weight=weight), case.loss(copies), 1e-7)
    if case.smooth:
        rows = gradient(case, copies).split([k for k in counts if k])
        summed = torch.stack([part.sum(0) for part in rows])
        assert_close(gradient(case, inputs, sample_weight=weight)[weight > 0], summed, 1e-6)


@every_loss
def test_weights_of_one_are_no_weights(case: Case) -> None:
    inputs = make_inputs()
    assert_close(case.loss(inputs, sample_weight=torch.ones(7, dtype=torch.float64)), case.loss(inputs), 1e-12)


@every_loss
def test_a_mask_is_a_subset(case: Case) -> None:
    inputs = make_inputs(batch=8)
    mask = torch.tensor([True, False, True, True, False, True, True, True])
    subset = Inputs(*(part[mask] for part in inputs))
    hidden = Inputs(*(torch.where(mask[:, None], part, torch.nan) for part in inputs))
    assert_close(case.loss(hidden, mask=mask), case.loss(subset), 1e-12)
    slopes = gradient(case, hidden, mask=mask)
    assert_close(slopes[mask], gradient(case, subset), 1e-12)
    assert not slopes[~mask].any()


@every_loss
def test_missing_labels_are_left_out(case: Case) -> None:
    inputs = make_inputs(targets=1)
    keep = torch.tensor([True, True, False, True, True, True, False])
    labels = torch.where(keep[:, None], inputs.target, torch.nan)
    subset = Inputs(*(part[keep] for part in inputs))
    assert_close(case.loss(inputs._replace(target=labels), nan_policy="omit"), case.loss(subset), 1e-12)


@every_loss
def test_missing_labels_of_one_target(case: Case) -> None:
    """Losses of predictions use all labels there are; losses of features leave the row out."""
    inputs = make_inputs(targets=2)
    keep = torch.tensor([True, True, False, True, True, True, False])
    labels = inputs.target.clone()
    labels[~keep, 1] = torch.nan
    got = case.loss(inputs._replace(target=labels), nan_policy="omit")
    if case.learns == "features":
        assert_close(got, case.loss(Inputs(*(part[keep] for part in inputs))), 1e-12)
    elif case.name.startswith(("gar", "mae_pearson")):  # not a mean over targets of a loss: aggregated after that mean
        mask = torch.stack([torch.ones_like(keep), keep], -1)
        assert_close(got, case.loss(inputs, mask=mask), 1e-12)
    else:
        first = case.loss(inputs._replace(pred=inputs.pred[:, :1], target=inputs.target[:, :1]))
        second = case.loss(Inputs(inputs.pred[keep, 1:], inputs.target[keep, 1:], inputs.features[keep]))
        assert_close(got, (first + second) / 2, 1e-12)


@every_loss_of_predictions
def test_a_perfect_prediction(case: Case) -> None:
    inputs = make_inputs()
    perfect = inputs._replace(pred=inputs.target.clone())
    assert_close(case.loss(perfect), case.perfect or 0.0, 1e-9)
    assert not gradient(case, perfect).any()


DEGENERATE: dict[str, Callable[[Inputs], tuple[Inputs, dict[str, Any]]]] = {
    "one row": lambda i: (Inputs(*(part[:1] for part in i)), {}),
    "no rows": lambda i: (Inputs(*(part[:0] for part in i)), {}),
    "constant labels": lambda i: (i._replace(target=torch.full_like(i.target, 1234.1)), {}),
    "constant predictions": lambda i: (i._replace(pred=torch.full_like(i.pred, 1234.1), features=torch.ones_like(i.features)), {}),
    "features of zero": lambda i: (i._replace(features=torch.zeros_like(i.features)), {}),
    "everything alike": lambda i: (Inputs(*(torch.ones_like(part) for part in i)), {}),
    "perfect fit": lambda i: (i._replace(pred=i.target.clone()), {}),
    "everything masked": lambda i: (i, {"mask": torch.zeros(i.pred.shape[0], dtype=torch.bool)}),
    "no weight": lambda i: (i, {"sample_weight": torch.zeros(i.pred.shape[0], dtype=i.pred.dtype)}),
    "one label left": lambda i: (i, {"mask": torch.arange(i.pred.shape[0]) == 1}),
    "two values of labels": lambda i: (i._replace(target=(i.target > 0).to(i.target)), {}),
    "tiny spread": lambda i: (Inputs(i.pred * 1e-20, i.target * 1e-20, i.features * 1e-20), {}),
    "large values": lambda i: (Inputs(i.pred * 1e4, i.target * 1e4, i.features * 1e4), {}),
}


PRECISIONS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
ALL_KINDS = [(kind, dtype) for kind in DEGENERATE for dtype in PRECISIONS if (kind, dtype) != ("large values", torch.float16)]


@every_loss
@pytest.mark.parametrize(("kind", "dtype"), ALL_KINDS, ids=str)
def test_degenerate_batches_are_finite(case: Case, kind: str, dtype: torch.dtype) -> None:
    inputs, more = DEGENERATE[kind](make_inputs(dtype=dtype))
    for value in case.values:
        own = {"value": value} if case.parameter else {}
        assert case.loss(inputs, **own, **more).isfinite()
        assert gradient(case, inputs, **own, **more).isfinite().all()


@pytest.mark.parametrize("case", [case for case in CASES if case.name != "ranksim"], ids=str)  # ranks of NaN are numbers
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_broken_predictions_stay_visible(case: Case, bad: float) -> None:
    inputs = make_inputs(targets=1)
    broken = case.learned(inputs).clone()
    broken[2] = bad
    assert not case.loss(case.with_learned(inputs, broken)).isfinite()


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_single(case: Case, dtype: torch.dtype) -> None:
    inputs = make_inputs(batch=32)
    half = Inputs(*(part.to(dtype) for part in inputs))
    single = Inputs(*(part.float() for part in half))
    assert case.loss(half).dtype == torch.float32
    assert_close(case.loss(half), case.loss(single), 1e-6)
    slopes = gradient(case, half)
    assert slopes.dtype == dtype
    assert_close(slopes.float(), gradient(case, single), 0.02)


@every_closed_form
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_under_a_gradient_scaler(case: Case, dtype: torch.dtype) -> None:
    """Its first factor, 65536, is infinite in float16: a gradient is rounded after it was scaled."""
    half = Inputs(*(part.to(dtype) for part in make_inputs(batch=64)))
    slopes = []
    for inputs in (half, Inputs(*(part.float() for part in half))):
        leaf = case.learned(inputs).clone().requires_grad_()
        (65536.0 * case.loss(case.with_learned(inputs, leaf))).backward()
        assert leaf.grad is not None
        slopes.append(leaf.grad.float() / 65536.0)
    assert slopes[0].isfinite().all()
    torch.testing.assert_close(*slopes, rtol=0.01, atol=1e-6)


@every_loss
def test_autocast_changes_nothing(case: Case) -> None:
    inputs = make_inputs(batch=32, dtype=torch.float32)
    leaf = case.learned(inputs).clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = case.loss(case.with_learned(inputs, leaf))
    inside.backward()
    assert inside.dtype == torch.float32
    assert_close(inside.detach(), case.loss(inputs), 1e-6)
    assert leaf.grad is not None
    assert_close(leaf.grad, gradient(case, inputs), 1e-6)


@every_loss
def test_vmap_and_grad(case: Case) -> None:
    inputs = make_inputs(3)
    one_by_one = torch.func.vmap(lambda *parts: case.loss(Inputs(*parts)), randomness="different")
    assert_close(one_by_one(*inputs), case.loss(inputs), 1e-10)
    alone = Inputs(*(part[0] for part in inputs))
    slopes = torch.func.grad(lambda x: case.loss(case.with_learned(alone, x)))(case.learned(alone))
    assert_close(slopes, gradient(case, alone), 1e-9)


@every_loss
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own way with a Function
def test_traces_as_one_graph(case: Case) -> None:
    inputs = make_inputs(2)
    torch.compiler.reset()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x: Tensor) -> Tensor:
        return case.loss(case.with_learned(inputs, x))

    leaf = case.learned(inputs).clone().requires_grad_()
    value = compiled(leaf)
    value.sum().backward()
    assert_close(value.detach(), case.loss(inputs), 1e-10)
    assert leaf.grad is not None
    assert_close(leaf.grad, gradient(case, inputs), 1e-9)


@every_loss
def test_nothing_is_changed(case: Case) -> None:
    inputs = make_inputs()
    weight, mask = torch.rand(7, dtype=torch.float64), torch.tensor([True] * 6 + [False])
    before = [part.clone() for part in (*inputs, weight, mask)]
    gradient(case, inputs, sample_weight=weight, mask=mask)
    gradient(case, inputs)
    for part, copy in zip((*inputs, weight, mask), before, strict=True):
        assert torch.equal(part, copy)
