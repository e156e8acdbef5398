"""What training records, when it stops, and what it keeps."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from gar.metrics import all_metrics
from gar.registry import METRICS
from gar.stack import Models, StackData, StackedMLP, TrainSettings, train
from gar.stack.settings import Metric, Optimizer
from tests.stack.plain import make_data

SETTINGS = TrainSettings(hidden_sizes=(8, 4), epochs=12, batch_size=16, optimizer="adam", schedule="constant")
MODELS = Models.grid(folds=(0, 1), learning_rates=(0.1, 0.03, 1e-3), parameters=(0.1, 1.0))


def test_shape_and_names_of_a_history() -> None:
    history = train(make_data(), MODELS, SETTINGS)
    assert history.metrics.shape == (12, 12, 2, 5)
    assert np.isfinite(history.metrics).all()
    assert history.of("test", "rmse").shape == (12, 12)
    np.testing.assert_array_equal(history.of("valid", "spearman"), history.metrics[:, :, 0, METRICS["spearman"].index])
    assert (history.epochs_run == 12).all()
    assert (history.failed_epoch == -1).all()


def test_training_learns() -> None:
    history = train(make_data(rows=300, sizes=(200, 200)), MODELS, replace(SETTINGS, epochs=40))
    assert history.of("test", "pearson")[:, -1].max() > 0.97


def test_metrics_belong_to_the_weights_of_their_epoch() -> None:
    data = make_data(targets=2)
    history = train(data, MODELS, replace(SETTINGS, keep_final=True, keep_best="pearson"))
    for networks, epochs in ((history.final, history.epochs_run - 1), (history.best, history.best_epoch)):
        for g, fold in enumerate(MODELS.fold):
            rows = torch.from_numpy(data.folds[fold].valid)
            pred = networks(data.x[rows].float()).predictions[g]
            expected = all_metrics(pred, data.y[rows]).numpy()
            np.testing.assert_allclose(history.metrics[g, epochs[g], 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("metric", "choose"), [("mae", np.argmin), ("r2", np.argmax), ("spearman", np.argmax)])
def test_best_epoch(metric: Metric, choose: Callable[..., np.ndarray]) -> None:
    history = train(make_data(), MODELS, replace(SETTINGS, keep_best=metric))
    np.testing.assert_array_equal(history.best_epoch, choose(history.of("valid", metric), axis=1))


@pytest.mark.parametrize("patience", [1, 3])
def test_early_stopping_is_each_models_own(patience: int) -> None:
    data = make_data()
    settings = replace(SETTINGS, epochs=25, keep_final=True)
    full = train(data, MODELS, settings).of("valid", "mae")
    history = train(data, MODELS, replace(settings, patience=patience, monitor="mae"))
    assert len(set(history.epochs_run.tolist())) > 1
    for g, values in enumerate(full):
        best = np.minimum.accumulate(values)
        since = [epoch - int(np.flatnonzero(values == best[epoch])[0]) for epoch in range(len(values))]
        stop = next((epoch + 1 for epoch, wait in enumerate(since) if wait >= patience), len(values))
        assert history.epochs_run[g] == stop
        np.testing.assert_array_equal(history.of("valid", "mae")[g, :stop], values[:stop])
        assert np.isnan(history.metrics[g, stop:]).all()
        assert history.best_epoch[g] == np.argmin(values[:stop])
    assert torch.isfinite(history.final.weights).all()


def test_patience_and_best_may_look_at_other_metrics() -> None:
    settings = replace(SETTINGS, epochs=25, patience=2, monitor="mae", keep_best="spearman")
    history = train(make_data(), MODELS, settings)
    for g, stop in enumerate(history.epochs_run):
        assert history.best_epoch[g] == np.argmax(history.of("valid", "spearman")[g, :stop])


def test_two_phases_look_for_the_best_in_the_second() -> None:
    settings = replace(SETTINGS, loss="rnc", pretrain_epochs=5, keep_best="mae", patience=2)
    models = Models.grid(learning_rates=(1e-2, 1e-3), parameters=(1.0, 2.0))
    history = train(make_data(), models, settings)
    assert (history.best_epoch >= 5).all()
    assert (history.epochs_run >= 7).all()


def test_half_of_the_epochs_pretrain_by_default() -> None:
    assert replace(SETTINGS, loss="rnc").first_phase_epochs == 6
    assert replace(SETTINGS, loss="gar").first_phase_epochs == 12


def test_splits_may_be_empty() -> None:
    data = make_data()
    train_rows, valid, test = data.folds[0].train, data.folds[0].valid, data.folds[0].test
    none = np.zeros(0, int)
    folds = [(train_rows, none, test), (train_rows, valid, none)]
    history = train(StackData(data.x, data.y, folds), MODELS, SETTINGS)
    assert np.isnan(history.of("valid", "mae")[:6]).all()
    assert np.isfinite(history.of("test", "mae")[:6]).all()
    assert np.isnan(history.of("test", "mae")[6:]).all()
    nothing = train(StackData(data.x, data.y, [(np.arange(40), [], [])]), Models(), replace(SETTINGS, keep_final=True))
    assert np.isnan(nothing.metrics).all()
    assert torch.isfinite(nothing.final.weights).all()


def test_no_models() -> None:
    assert train(make_data(), MODELS.take([]), SETTINGS).metrics.shape == (0, 12, 2, 5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_padding_of_the_weights_stays_zero(optimizer: Optimizer) -> None:
    models = Models(learning_rate=[0.1, 0.01], weight_decay=1e-2)
    trained = train(make_data(), models, replace(SETTINGS, optimizer=optimizer, keep_final=True)).final
    assert torch.equal(StackedMLP.from_modules([trained.module(g) for g in range(2)]).weights, trained.weights)


def test_schedules() -> None:
    multistep = TrainSettings(milestones=(50, 75))
    assert [multistep.rate_factor(e) for e in (0, 49, 50, 74, 75, 99)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    cosine = TrainSettings(schedule="cosine", epochs=10)
    assert [cosine.rate_factor(e) for e in (0, 5)] == pytest.approx([1.0, 0.5])
