"""The linear probe: a stack equals regressors trained one by one, and one configuration wins on validation rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gar.errors import InputError
from gar.metrics import all_metrics
from gar.registry import LOSSES, PAPER_LOSSES
from gar.search.grid import Job, SharedData, train_chunk
from gar.stack import History, Layout, Models, TrainSettings, batch_sizes, row_orders, train
from gar.vision.defaults import LEARNING_RATES, WEIGHT_DECAYS, probe_losses
from gar.vision.probe import Part, linear_probe, probe_data, select_configuration

SMALL: dict[str, Any] = {
    "learning_rates": (0.01, 0.1),
    "weight_decays": (0.0, 1e-3),
    "seeds": (1, 2),
    "epochs": 4,
    "batch_size": 32,
}


def parts(*sizes: int, width: int = 24, targets: int = 1, seed: int = 0) -> tuple[Part, Part, Part]:
    """Features as an encoder gives them, none below zero, and labels that are nearly a linear function of them."""
    generator = np.random.default_rng(seed)
    weight = generator.normal(size=(width, targets))
    x = [np.abs(generator.normal(size=(rows, width))) for rows in sizes or (150, 40, 50)]
    one, two, three = ((f, 3.0 + f @ weight + 0.3 * generator.normal(size=(len(f), targets))) for f in x)
    return one, two, three


def metrics_of(head: nn.Module, part: Part) -> np.ndarray:
    x, y = (torch.as_tensor(values) for values in part)
    with torch.no_grad():
        return all_metrics(head(x), y).numpy()


def one_by_one(splits: tuple[Part, Part, Part], loss: str, models: Models, index: int, epochs: int) -> tuple[np.ndarray, nn.Linear]:
    """A linear regression as anyone would write it, on the batches that the stack reads."""
    x, y = (torch.as_tensor(values) for values in splits[0])
    seed = int(models.seed[index])
    torch.manual_seed(seed)
    head = nn.Linear(x.shape[1], y.shape[1], dtype=torch.float64)
    rate, decay = float(models.learning_rate[index]), float(models.weight_decay[index])
    optimizer = torch.optim.SGD(head.parameters(), lr=rate, momentum=0.9, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    criterion = LOSSES[loss].build(None if models.parameter is None else float(models.parameter[index]))
    orders, history = row_orders(seed, 0, len(x)), []
    for _ in range(epochs):
        for rows in torch.from_numpy(next(orders)).split(batch_sizes(len(x), 32, drop_last=False)):
            optimizer.zero_grad()
            criterion(head(x[rows]), y[rows]).backward()
            optimizer.step()
        schedule.step()
        history.append([metrics_of(head, part) for part in splits[1:]])
    return np.array(history), head


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("loss", probe_losses())
def test_a_stack_equals_linear_regressions_one_by_one(loss: str, targets: int) -> None:
    splits = parts(targets=targets)
    found = linear_probe(*splits, loss=loss, **SMALL, dtype=torch.float64)
    assert len(found.models) == 8 * max(1, len(LOSSES[loss].grid))
    for index in range(len(found.models)):
        metrics, head = one_by_one(splits, loss, found.models, index, SMALL["epochs"])
        np.testing.assert_allclose(found.history.metrics[index], metrics, rtol=1e-9, atol=1e-9)
        if found.history.best_epoch[index] == SMALL["epochs"] - 1:
            kept = found.history.best.module(index)[0]
            assert isinstance(kept, nn.Linear)
            torch.testing.assert_close(kept.weight, head.weight, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(kept.bias, head.bias, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("chunk", [1, 3, 17, 40])
def test_neighbours_change_no_bit(chunk: int, dtype: torch.dtype) -> None:
    data = probe_data(*parts(150, 40, 50, width=70))
    models = Models.grid(seeds=(1, 2), learning_rates=(0.01, 0.1, 1e300), weight_decays=(0.0, 1e-3), parameters=(0.1, 1.0, 10.0))
    settings = TrainSettings(hidden_sizes=(), epochs=3, batch_size=32, drop_last=False, schedule="cosine", keep_final=True)
    whole, cut = (train(data, models, settings, dtype=dtype, chunk_size=size) for size in (None, chunk))
    np.testing.assert_array_equal(cut.metrics, whole.metrics)
    np.testing.assert_array_equal(cut.failed_epoch, whole.failed_epoch)
    np.testing.assert_array_equal(whole.failed_epoch >= 0, models.learning_rate == 1e300)
    assert torch.equal(cut.final.weights.nan_to_num(), whole.final.weights.nan_to_num())


@pytest.mark.parametrize("loss", [name for name in PAPER_LOSSES if name in probe_losses()])
def test_every_method_finds_what_is_linear(loss: str) -> None:
    found = linear_probe(*parts(300, 60, 80), loss=loss, seeds=(1, 2), epochs=30)
    assert len(found.models) == 2 * len(LEARNING_RATES) * len(WEIGHT_DECAYS) * max(1, len(LOSSES[loss].grid))
    assert found.best.mean("test", "r2") > 0.98
    assert found.best.of("test", "mae").shape == (2,)
    assert (found.parameter is None) == (LOSSES[loss].parameter is None)
    assert found.learning_rate in LEARNING_RATES
    assert found.weight_decay in WEIGHT_DECAYS


@pytest.mark.parametrize("standardise", [False, True])
def test_heads_predict_what_was_reported(standardise: bool) -> None:
    splits = parts()
    found = linear_probe(*splits, **SMALL, standardise=standardise, dtype=torch.float64)
    heads = found.heads()
    assert len(heads) == len(SMALL["seeds"])
    for head, values in zip(heads, found.best.values, strict=True):
        np.testing.assert_allclose([metrics_of(head, part) for part in splits[1:]], values, rtol=1e-9, atol=1e-9)


def test_scaled_features_need_not_be_standardised_by_hand() -> None:
    plain = parts()
    scaled = [(1e3 * np.asarray(x) + 5e3, y) for x, y in plain]
    one, other = (linear_probe(*splits, **SMALL, standardise=True, dtype=torch.float64) for splits in (plain, scaled))
    np.testing.assert_allclose(one.history.metrics, other.history.metrics, rtol=1e-6)


def test_tensors_and_lists_are_features_too() -> None:
    splits = parts()
    tensors = [(torch.as_tensor(x), torch.as_tensor(y)[:, 0]) for x, y in splits]
    lists = [(np.asarray(x).tolist(), np.asarray(y).tolist()) for x, y in splits]
    expected = linear_probe(*splits, **SMALL, dtype=torch.float64).history.metrics
    for same in (tensors, lists):
        np.testing.assert_array_equal(linear_probe(*same, **SMALL, dtype=torch.float64).history.metrics, expected)


def test_what_is_recorded_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = linear_probe(*parts(), **SMALL, records=tmp_path)
    trained: list[int] = []

    def counted(number: int, table: SharedData, models: Models, job: Job) -> tuple[int, History]:
        trained.append(len(models))
        return train_chunk(number, table, models, job)

    monkeypatch.setattr("gar.search.grid.train_chunk", counted)
    again = linear_probe(*parts(), **SMALL, records=tmp_path)
    np.testing.assert_array_equal(again.history.metrics, first.history.metrics)
    assert trained == []
    linear_probe(*parts(), **{**SMALL, "seeds": (1, 2, 3)}, records=tmp_path)
    assert sum(trained) == len(first.models) // 2


def history_of(valid: np.ndarray) -> History:
    """Validation and test errors ``(models, epochs)``; the test errors are ten times as large."""
    settings = TrainSettings(hidden_sizes=(), epochs=valid.shape[1])
    history = History.empty(Layout((3, 1)), len(valid), settings, dtype=torch.float32)
    history.metrics[:, :, 0] = valid[..., None]
    history.metrics[:, :, 1] = 10 * valid[..., None]
    return history


def test_the_best_on_average_over_seeds_wins() -> None:
    """Neither the best single run nor the best average of last epochs."""
    models = Models.grid(seeds=(7, 8), learning_rates=(0.1, 0.2, 0.3))
    valid = np.array([[3.0, 1.0], [2.0, 2.5], [2.2, 9.0], [5.0, 5.0], [2.4, 2.6], [9.0, 2.1]])
    chosen = select_configuration(history_of(valid), models, "mae")
    assert models.learning_rate[chosen.model].tolist() == [0.3, 0.3]
    assert models.seed[chosen.model].tolist() == [7, 8]
    assert chosen.epoch.tolist() == [0, 1]
    assert chosen.of("test", "mae").tolist() == [22.0, 21.0]
    assert models.learning_rate[select_configuration(history_of(valid), models, "r2").model].tolist() == [0.3, 0.3]
    assert models.learning_rate[select_configuration(history_of(-valid), models, "r2").model].tolist() == [0.3, 0.3]


def test_a_configuration_that_fails_with_one_seed_is_out() -> None:
    models = Models.grid(seeds=(1, 2), learning_rates=(0.1, 0.2))
    valid = np.array([[2.0, np.nan], [1.0, 1.0], [2.0, 3.0], [np.nan, np.nan]])
    chosen = select_configuration(history_of(valid), models)
    assert models.learning_rate[chosen.model].tolist() == [0.1, 0.1]
    assert chosen.epoch.tolist() == [0, 0]
    with pytest.raises(
        InputError, match="no configuration gave a finite validation mae with every seed; use smaller learning rates"
    ):
        select_configuration(history_of(np.full((4, 2), np.nan)), models)


def test_the_smaller_of_equals_wins() -> None:
    models = Models.grid(seeds=(1, 2), learning_rates=(0.2, 0.1), parameters=(10.0, 1.0))
    chosen = select_configuration(history_of(np.ones((8, 3))), models)
    assert (models.learning_rate[chosen.model] == 0.1).all()
    assert models.parameter is not None
    assert (models.parameter[chosen.model] == 1.0).all()
    assert chosen.epoch.tolist() == [0, 0]


def spoilt(which: int, part: Part) -> tuple[Part, ...]:
    splits = list(parts())
    splits[which] = part
    return tuple(splits)


X, Y = (torch.as_tensor(values) for values in parts()[2])


@pytest.mark.parametrize(
    ("splits", "options", "message"),
    [
        (parts(), {"loss": "mea"}, "loss='mea' is unknown; choose one of 'mae'"),
        (parts(), {"loss": "rnc"}, "loss='rnc' trains features, but those of a linear probe are frozen; choose one of 'mae'"),
        (parts(), {"loss": "ranksim"}, "loss='ranksim' trains features"),
        (parts(), {"loss": "conr"}, "loss='conr' trains features"),
        (parts(), {"loss": "mae", "parameters": (1.0,)}, "loss='mae' has no parameter to tune"),
        (parts(20, 20, 20), {}, "train has 20 rows, fewer than batch_size=32; use batch_size=20 or less"),
        (parts(), {"batch_size": 0}, "batch_size=0 is not a whole number of 1 or more"),
        (parts(), {"seeds": ()}, "there is nothing to train; give at least one seed"),
        (parts(), {"learning_rates": (-1.0,)}, "learning_rate holds -1.0"),
        (spoilt(2, (X[:, 1:], Y)), {}, "features have different widths: {'train': 24, 'valid': 24, 'test': 23}; take all of them"),
        (spoilt(1, (X, Y.repeat(1, 2))), {}, "labels have different numbers of targets: .1, 2, 1.; give all splits the same"),
        (spoilt(1, (X, Y[1:])), {}, "valid has features .50, 24. and labels .49, 1.; expected .rows, width. and one label per row"),
        (spoilt(0, (X[0], Y)), {}, "train has features .24,. and labels"),
        (spoilt(2, (X[:0], Y[:0])), {}, "test has no rows; give it at least one"),
        (spoilt(0, (torch.where(X > 2.0, torch.nan, X), Y)), {}, "train has .* rows with NaN or infinite features"),
        (spoilt(2, (torch.where(X > 2.0, torch.inf, X), Y)), {}, "test has .* rows with NaN or infinite features"),
        (spoilt(1, (X, ["old"] * len(X))), {}, "valid holds values of type <U3; expected numbers"),
        (spoilt(1, (X, Y, Y)), {}, "valid has 3 parts; expected .features, labels."),  # type: ignore[arg-type]
    ],
)
def test_bad_input(splits: tuple[Part, Part, Part], options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        linear_probe(*splits, **{**SMALL, **options}, records=tmp_path / "records")
    assert not (tmp_path / "records").exists()


def test_learning_rates_that_are_all_too_large() -> None:
    with pytest.raises(InputError, match="no configuration gave a finite validation mae"):
        linear_probe(*parts(), loss="mse", **{**SMALL, "learning_rates": (1e30,)})


def test_a_single_width_is_enough() -> None:
    x = torch.linspace(0, 1, 90)[:, None]
    splits = [(x[rows::3], 2 * x[rows::3]) for rows in range(3)]
    found = linear_probe(*splits, loss="mse", **{**SMALL, "batch_size": 8, "epochs": 60})
    assert found.best.mean("test", "r2") > 0.99
