"""The Lightning modules without a trainer: every loss, both views, and metrics of all rows at once."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gar.errors import InputError
from gar.metrics import all_metrics
from gar.registry import LOSSES, METRICS
from gar.vision import ImagePretrainer, ImageRegressor
from gar.vision.modules import ImageModule
from gar.vision.views import ImageBatch
from tests.vision.conftest import small_network


def batch(rows: int = 12) -> ImageBatch:
    return torch.randn(rows, 2, 3, 16, 16), torch.linspace(20.0, 60.0, rows), torch.arange(rows)


def module_for(loss: str, **more: Any) -> ImageModule:
    kind = ImageRegressor if "pred" in LOSSES[loss].inputs else ImagePretrainer
    return kind(loss=loss, encoder=small_network(), **more)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains(loss: str) -> None:
    """Its value is that of the loss on 2N rows, and it has a gradient for every weight."""
    module, (views, targets, rows) = module_for(loss), batch()
    torch.manual_seed(1)  # RankSim draws one of the two views
    value = module.batch_loss((views, targets, rows))
    value.backward()
    trained = [name for name, weight in module.named_parameters() if weight.grad is not None and weight.grad.any()]
    assert trained == [name for name, _ in module.named_parameters()]
    features = module.encoder(torch.stack([view for pair in views for view in pair]))
    target = torch.tensor([[value] for value in targets for _ in range(2)])
    given = {"features": features, "pred": None if module.head is None else module.head(features)}
    first, *rest = (given[name] for name in LOSSES[loss].inputs)
    torch.manual_seed(1)
    torch.testing.assert_close(value, LOSSES[loss].build()(first, target, *rest))


def test_a_loss_for_the_other_task_is_refused() -> None:
    with pytest.raises(InputError, match="'rnc' trains features alone"):
        ImageRegressor(loss="rnc", encoder=small_network())
    with pytest.raises(InputError, match="'gar' trains predictions"):
        ImagePretrainer(loss="gar", encoder=small_network())


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_on_pairs_see_all_processes(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    monkeypatch.setattr(ImageModule, "trainer", SimpleNamespace(world_size=2, strategy=strategy, precision="32-true"))
    module = module_for(loss)
    can_join = hasattr(module.loss, "process_group")
    of_agreement = ("pearson", "concordance", "nash_sutcliffe", "kling_gupta", "norm_in_norm")
    assert can_join == (loss in ("gar", "ranksim", "rnc", "conr", *of_agreement))
    module.setup("fit")
    assert getattr(module.loss, "process_group", None) == ("world" if can_join else None)


def test_the_seed_makes_the_weights() -> None:
    one, same, other = (ImageRegressor(loss="mae", seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["encoder.conv1.weight"], other["encoder.conv1.weight"])


def test_predictions_are_in_units_of_labels() -> None:
    """Numbers are scaled for the loss, and predictions are scaled back."""
    module, (views, targets, rows) = module_for("mae"), batch()
    assert module.head is not None
    raw = module.head(module.encoder(views[:, 0]))
    torch.testing.assert_close(module(views[:, 0]), raw)
    module.head.scale_to(targets.numpy())
    torch.testing.assert_close(module(views[:, 0]), raw * targets.std(correction=0) + targets.mean())
    expected = (module(views.flatten(0, 1)).squeeze(-1) - targets.repeat_interleave(2)).abs().mean() / targets.std(correction=0)
    torch.testing.assert_close(module.batch_loss((views, targets, rows)), expected)
    module.head.scale_to(np.full(3, 7.0))
    assert (float(module.head.mean), float(module.head.deviation)) == (7.0, 1.0)


def test_predictions_are_not_rounded_to_half_precision() -> None:
    """Under autocast the encoder is, the head is not: ages would be whole or half years."""
    module, (views, _, _) = module_for("mae"), batch()
    assert module.head is not None
    module.head.scale_to(np.array([0.0, 100.0]))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = module(views[:, 0])
    assert found.dtype == torch.float32
    assert not torch.equal(found, found.bfloat16().float())
    torch.testing.assert_close(found, module(views[:, 0]), rtol=0.05, atol=2.0)


def test_metrics_count_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another process had seen the same rows, some of them twice."""
    module, logged = module_for("mae").eval(), {}
    monkeypatch.setattr(ImageRegressor, "all_gather", lambda self, parts: [torch.stack([part, part.flip(0)]) for part in parts])
    monkeypatch.setattr(ImageRegressor, "log", lambda self, name, value, **more: logged.update({name: value}))
    assert isinstance(module, ImageRegressor)
    views, targets, rows = batch()
    with torch.no_grad():
        for part in (slice(0, 8), slice(8, 12), slice(0, 3)):
            module.validation_step((views[part, :1], targets[part], rows[part]))
        module.on_validation_epoch_end()
        values = all_metrics(module(views[:, 0]).squeeze(-1), targets).float()
    assert list(logged) == [f"val_{name}" for name in METRICS]
    torch.testing.assert_close(torch.stack(list(logged.values())), values)
