"""Losses on an accelerator: few kernels, no wait for the device, and the digits of the other code paths.

None is needed: the meta device has shapes but no values, so whatever would wait for a GPU fails on it, and kernels can be counted.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.kernels import Counter, compiled_kernels, kernels, meta, stack_kernels
from gar import GARLoss
from gar.losses import (
    ConcordanceLoss,
    ConRLoss,
    FocalMAELoss,
    FocalMSELoss,
    HuberLoss,
    KlingGuptaLoss,
    MAELoss,
    MAEPearsonLoss,
    MSELoss,
    NashSutcliffeLoss,
    NormInNormLoss,
    PearsonLoss,
    RankNContrastLoss,
    RankSimLoss,
)

# Collected here once more: these laws hold on the path of accelerators too. All others do by the case "gar_accelerated".
from tests.functional.test_gar import (  # noqa: F401
    test_a_constant_is_seen_as_constant,
    test_a_model_that_fails_is_alone,
    test_a_nearly_perfect_fit_keeps_its_digits,
    test_closed_form_is_the_plain_form,
    test_large_offsets_do_not_cancel,
    test_parallel_predictions_of_any_spread,
    test_single_precision_follows_double,
    test_what_a_degenerate_batch_gives,
)


@pytest.fixture(autouse=True)
def on_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the path of accelerators on the CPU."""
    monkeypatch.setattr("gar.functional.gar.on_accelerator", lambda _: True)


@pytest.mark.parametrize(
    ("loss", "shape", "options", "most"),
    [
        (GARLoss(), (256, 1), {}, 40),
        (GARLoss(), (256,), {}, 40),
        (GARLoss(), (256, 3), {}, 44),
        (GARLoss(), (256, 1), {"sample_weight": meta(256)}, 55),
        (GARLoss(), (256, 1), {"mask": meta(256, 1).bool()}, 56),
        (GARLoss(), (256, 3), {"mask": meta(256, 3).bool()}, 67),
        (GARLoss(torch.ones(5, device="meta")), (5, 256, 1), {}, 41),
    ],
    ids=["one target", "flat", "targets", "weight", "mask", "mask of targets", "alpha per model"],
)
def test_gar_launches_few_kernels(loss: GARLoss, shape: tuple[int, ...], options: dict[str, Tensor], most: int) -> None:
    """The counts do not depend on the machine. Written as plain differentiable equations, GAR takes 64."""
    assert sum(kernels(loss, meta(*shape).requires_grad_(), meta(*shape), **options)) <= most


@pytest.mark.parametrize("loss", ["mae", "mse", "huber", "gar", "rnc", "conr", "ranksim"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_an_epoch_of_a_stack_does_not_wait(loss: str, optimizer: str) -> None:
    """Nor does an operation depend on values, so a step can be captured as a CUDA graph: on the meta device there are none."""
    step, epoch = stack_kernels(loss, optimizer=optimizer)
    assert 0 < step < epoch


def test_the_loss_is_not_the_largest_part_of_a_step() -> None:
    pred, target = meta(36, 64, 1), meta(36, 64, 1)
    with Counter() as loss:
        GARLoss().value_and_gradient(pred, target)
    step, _ = stack_kernels("gar")
    assert loss.count < step / 2 < 39


def test_wide_networks_are_one_block_on_an_accelerator() -> None:
    """Blocks keep activations in the cache of a CPU; elsewhere each would be a launch more per operation."""
    assert stack_kernels("gar", hidden_sizes=(128, 256, 128, 64)) == stack_kernels("gar", hidden_sizes=(4, 4, 4, 4))


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="this PyTorch compiles no backward pass in a graph"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, inside Inductor and Dynamo
def test_a_compiled_training_step_is_one_graph_of_as_many_kernels_as_with_l1() -> None:
    assert compiled_kernels(GARLoss()) == compiled_kernels(torch.nn.L1Loss())


PREDICTIONS = [
    *(MAELoss(), MSELoss(), HuberLoss(), FocalMAELoss(), FocalMSELoss(), MAEPearsonLoss(), GARLoss()),
    *(PearsonLoss(), ConcordanceLoss(), NashSutcliffeLoss(), KlingGuptaLoss(), NormInNormLoss()),
]


@pytest.mark.parametrize("loss", PREDICTIONS, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    "options", [{}, {"sample_weight": meta(64)}, {"mask": meta(64, 2).bool()}], ids=["plain", "weight", "mask"]
)
def test_losses_of_predictions_do_not_wait(loss: Any, options: dict[str, Tensor]) -> None:
    assert sum(kernels(loss, meta(64, 2).requires_grad_(), meta(64, 2), **options)) > 0


@pytest.mark.parametrize("loss", [RankSimLoss(), ConRLoss()], ids=lambda loss: type(loss).__name__)
def test_losses_of_features_do_not_wait(loss: Any) -> None:
    assert sum(kernels(loss, meta(64, 1).requires_grad_(), meta(64, 1), meta(64, 8).requires_grad_())) > 0


def test_rank_n_contrast_does_not_wait() -> None:
    assert sum(kernels(RankNContrastLoss(), meta(64, 8).requires_grad_(), meta(64, 1))) > 0


def test_a_missing_label_is_visible() -> None:
    """A look at the labels would wait for the device, so there is no error: the loss is NaN."""
    target = torch.randn(8, 1)
    target[3] = torch.nan
    assert GARLoss()(torch.randn(8, 1), target).isnan()
