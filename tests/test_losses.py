"""Modules: each calls its function, and nothing else; the list of losses."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gar
from gar import functional
from gar.losses import LOSSES, LossSpec
from gar.registry import PAPER_LOSSES

NAMES = list(LOSSES)


def call(spec: LossSpec, module: nn.Module, pred: Tensor, target: Tensor, features: Tensor, **more: Any) -> Tensor:
    if spec.inputs == ("features",):
        return module(features, target, **more)
    return module(pred, target, features, **more) if "features" in spec.inputs else module(pred, target, **more)


def inputs(*lead: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(*lead, 6, 2), torch.randn(*lead, 6, 2), torch.randn(*lead, 6, 4)


def expected(name: str, pred: Tensor, target: Tensor, features: Tensor) -> Tensor:
    mae = functional.mae_loss(pred, target)
    by_name: dict[str, Callable[[], Tensor]] = {
        "mae": lambda: mae,
        "mse": lambda: functional.mse_loss(pred, target),
        "huber": lambda: functional.huber_loss(pred, target, delta=0.7),
        "focal_mae": lambda: functional.focal_mae_loss(pred, target, beta=0.7),
        "focal_mse": lambda: functional.focal_mse_loss(pred, target, beta=0.7),
        "ranksim": lambda: mae + 100 * functional.ranksim_loss(features, target, interpolation=0.7),
        "rnc": lambda: functional.rank_n_contrast_loss(features, target, temperature=0.7),
        "conr": lambda: mae + 0.7 * functional.conr_loss(features, pred, target),
        "gar": lambda: functional.gar_loss(pred, target, alpha=0.7),
        "mae_pearson": lambda: functional.mae_pearson_loss(pred, target),
        "pearson": lambda: functional.pearson_loss(pred, target),
        "concordance": lambda: functional.concordance_loss(pred, target),
        "nash_sutcliffe": lambda: functional.nash_sutcliffe_loss(pred, target),
        "kling_gupta": lambda: functional.kling_gupta_loss(pred, target),
        "norm_in_norm": lambda: functional.norm_in_norm_loss(pred, target),
    }
    return by_name[name]()


@pytest.mark.parametrize("name", NAMES)
def test_modules_are_their_functions(name: str) -> None:
    spec, data = LOSSES[name], inputs()
    module = spec.build(0.7 if spec.parameter else None)
    torch.testing.assert_close(call(spec, module, *data), expected(name, *data))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_compute_the_same(name: str, copied: Callable[[nn.Module], nn.Module]) -> None:
    spec, data = LOSSES[name], inputs(3)
    values = torch.tensor([0.5, 1.0, 2.0]) if spec.parameter else None
    module = spec.build(values)
    torch.testing.assert_close(call(spec, copied(module), *data), call(spec, module, *data))


@pytest.mark.parametrize("name", [name for name in NAMES if LOSSES[name].parameter])
def test_a_parameter_per_model_is_a_buffer(name: str) -> None:
    spec, data = LOSSES[name], inputs(3)
    values = torch.tensor(spec.grid)
    module = spec.build(values)
    state = module.state_dict()
    assert list(state) == [spec.parameter]
    assert str(spec.parameter) in repr(module)
    stacked = call(spec, module, *data)
    assert stacked.shape == (3,)
    for k, value in enumerate(spec.grid):
        alone = call(spec, spec.build(value), *(part[k] for part in data))
        torch.testing.assert_close(stacked[k], alone)
    values.zero_()  # the module has its own copy
    assert float(state[str(spec.parameter)].min()) > 0


@pytest.mark.parametrize("name", NAMES)
def test_modules_take_weights_and_masks(name: str) -> None:
    spec, (pred, target, features) = LOSSES[name], inputs()
    module = spec.build()
    keep = torch.tensor([True, True, False, True, True, True])
    subset = call(spec, module, pred[keep], target[keep], features[keep])
    torch.testing.assert_close(call(spec, module, pred, target, features, mask=keep), subset)
    torch.testing.assert_close(call(spec, module, pred, target, features, sample_weight=keep.float()), subset)


@pytest.mark.parametrize("name", NAMES)
def test_forward_does_not_change_the_module(name: str) -> None:
    spec, data = LOSSES[name], inputs()
    module = spec.build()
    before = {k: copy.deepcopy(v) for k, v in vars(module).items() if not k.startswith("_")}
    call(spec, module, *data)
    assert {k: v for k, v in vars(module).items() if not k.startswith("_")} == before


@pytest.mark.parametrize("name", [name for name in NAMES if LOSSES[name].parameter])
def test_parameters_may_be_numbers_of_numpy(name: str) -> None:
    spec, data = LOSSES[name], inputs()
    numbers: list[Any] = [np.float32(0.5), np.int64(2)]
    for number in numbers:
        torch.testing.assert_close(call(spec, spec.build(number), *data), call(spec, spec.build(float(number)), *data))


@pytest.mark.parametrize(
    "build",
    [
        lambda number: gar.RankSimLoss(gamma=number),
        lambda number: gar.ConRLoss(window=number, temperature=number),
        lambda number: gar.losses.FocalMAELoss(gamma=number),
    ],
    ids=["ranksim", "conr", "focal"],
)
def test_other_parameters_too(build: Callable[[Any], nn.Module]) -> None:
    assert repr(build(np.float32(0.5))) == repr(build(0.5))


def test_a_loss_prints_as_it_is_written() -> None:
    assert repr(gar.GARLoss()) == "GARLoss(alpha=1.0)"
    assert repr(gar.GARLoss(0.5, form="exp", nan_policy="omit")) == "GARLoss(alpha=0.5, form='exp', nan_policy='omit')"
    assert repr(gar.GARLoss(torch.tensor(0.5))) == "GARLoss(alpha=tensor(0.5000))"
    assert repr(gar.MAELoss()) == "MAELoss()"


def test_registry_has_the_nine_methods_of_the_paper_and_their_grids() -> None:
    assert tuple(NAMES[:9]) == PAPER_LOSSES
    assert NAMES[9:] == ["mae_pearson", "pearson", "concordance", "nash_sutcliffe", "kling_gupta", "norm_in_norm"]
    grids = {spec.parameter: spec.grid for spec in LOSSES.values() if spec.parameter}
    assert grids == {
        "delta": (0.25, 1.0, 4.0),
        "beta": (0.2, 1.0, 4.0),
        "interpolation": (0.5, 1.0, 2.0),
        "temperature": (1.0, 2.0, 4.0),
        "alpha": (0.1, 1.0, 10.0),
    }
    assert LOSSES["focal_mae"].grid == LOSSES["focal_mse"].grid == (0.25, 1.0, 4.0)


def test_public_names() -> None:
    for name in gar.__all__:
        assert getattr(gar, name) is not None
    assert set(gar.__all__) <= set(dir(gar))
    with pytest.raises(AttributeError, match="no attribute 'GRALoss'"):
        _ = gar.GRALoss


def test_a_model_learns() -> None:
    """The three lines of the README: a module in an ordinary loop."""
    x = torch.linspace(-3, 3, 256)[:, None]
    y = torch.sin(2 * x)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loss = gar.GARLoss(alpha=0.5)
    for _ in range(300):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    assert float((model(x) - y).abs().mean().detach()) < 0.1


def test_ranksim_takes_the_rows_that_represent_their_label() -> None:
    pred, _, features = inputs()
    target = torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 4.0])[:, None].expand(6, 2)
    loss, keep = gar.RankSimLoss(), torch.tensor([False, True, True, True, False, True])
    mae = functional.mae_loss(pred, target)
    expected = mae + 100 * functional.ranksim_loss(features[keep], target[keep])
    torch.testing.assert_close(loss(pred, target, features, representatives=keep), expected)
    mask = torch.tensor([True, True, True, True, True, False])
    both = keep & mask
    expected = functional.mae_loss(pred[mask], target[mask]) + 100 * functional.ranksim_loss(features[both], target[both])
    for rows in (mask, mask[:, None].expand(6, 2)):
        torch.testing.assert_close(loss(pred, target, features, mask=rows, representatives=keep), expected)
    with pytest.raises(gar.InputError, match="representatives are rows of one process; leave them out with process_group"):
        gar.RankSimLoss(process_group="world")(pred, target, features, representatives=keep)
