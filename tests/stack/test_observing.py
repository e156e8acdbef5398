"""An observer sees every model after every epoch, with the weights of that epoch."""

import numpy as np
import torch

from gar.stack import Models, StackData, StackedMLP, TrainSettings, train

ROWS = np.random.default_rng(0).normal(size=(60, 3))
DATA = StackData(ROWS, ROWS.sum(1), [(np.arange(40), np.arange(40, 50), np.arange(50, 60))])
SETTINGS = TrainSettings(epochs=4, batch_size=20, hidden_sizes=(8,), keep_best="mae", keep_final=True)


def test_the_best_and_the_last_weights_were_seen() -> None:
    models = Models.grid(learning_rates=(0.1, 0.01, 0.001), seeds=(1, 2))
    seen: dict[tuple[int, int], torch.Tensor] = {}

    def look(epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for index, row in zip(indices.tolist(), networks.weights, strict=True):
            assert (epoch, index) not in seen
            seen[epoch, index] = row.clone()

    history = train(DATA, models, SETTINGS, chunk_size=2, observe=look)
    assert set(seen) == {(epoch, index) for epoch in range(4) for index in range(6)}
    for index in range(6):
        assert torch.equal(history.final.weights[index], seen[3, index])
        assert torch.equal(history.best.weights[index], seen[int(history.best_epoch[index]), index])


def test_watching_changes_nothing() -> None:
    models = Models.grid(learning_rates=(0.1, 0.01))
    watched = train(DATA, models, SETTINGS, observe=lambda *_: None)
    assert np.array_equal(watched.metrics, train(DATA, models, SETTINGS).metrics)


def test_a_model_that_failed_is_seen_once_more_and_then_no_longer() -> None:
    models = Models(learning_rate=[1e-2, 1e30])
    epochs: list[list[int]] = []
    history = train(DATA, models, SETTINGS, observe=lambda _, indices, __: epochs.append(indices.tolist()))
    failed = int(history.failed_epoch[1])
    assert failed >= 0
    assert epochs == [[0, 1]] * (failed + 1) + [[0]] * (3 - failed)


def test_training_can_be_ended_between_epochs() -> None:
    """Models keep the metrics and weights of the epochs they had, which are those of a whole training with the same schedule."""
    models = Models.grid(learning_rates=(0.1, 0.01), seeds=(1, 2))
    asked: list[int] = []

    def go_on(epochs: int) -> bool:
        asked.append(epochs)
        return epochs < 2

    cut, whole = train(DATA, models, SETTINGS, go_on=go_on), train(DATA, models, SETTINGS)
    assert asked == [0, 1, 2]
    assert (cut.is_cut, whole.is_cut) == (True, False)
    assert (cut.is_complete, whole.is_complete) == (False, True)
    assert cut.epochs_run.tolist() == [2] * 4
    assert np.array_equal(cut.metrics[:, :2], whole.metrics[:, :2])
    assert np.isnan(cut.metrics[:, 2:]).all()
    assert bool(cut.final.weights.isfinite().all())


def test_a_chunk_that_never_began_has_nothing() -> None:
    models = Models.grid(learning_rates=(0.1, 0.01))
    history = train(DATA, models, SETTINGS, go_on=lambda epochs: False)
    assert history.is_cut
    assert not history.epochs_run.any()
