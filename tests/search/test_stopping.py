"""A search that is stopped leaves the rest for later."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gar.stack import Models, TrainSettings, train
from tests.search.problem import assert_same, search, small_data

MODELS = Models.grid(learning_rates=(0.1, 0.03, 0.01, 0.003), seeds=(1, 2))
SETTINGS = TrainSettings(epochs=3, batch_size=20, hidden_sizes=(8,))


class Patience:
    """Returns True from the call after this number of calls on."""

    def __init__(self, times: int) -> None:
        self._left = times

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_finished_models_are_kept_and_the_rest_is_marked(tmp_path: Path) -> None:
    part = search(small_data(), MODELS, SETTINGS, records=tmp_path, chunk_size=2, stop=Patience(3))
    assert (part.epochs_run > 0).sum() == 6
    assert np.isnan(part.metrics[part.epochs_run == 0]).all()
    whole = train(small_data(), MODELS, SETTINGS)
    done = part.epochs_run > 0
    assert np.array_equal(part.metrics[done], whole.metrics[done])
    assert_same(search(small_data(), MODELS, SETTINGS, records=tmp_path), whole)


def test_time_that_was_up_before_trains_nothing(tmp_path: Path) -> None:
    nothing = search(small_data(), MODELS, SETTINGS, records=tmp_path, stop=lambda: True)
    assert not nothing.epochs_run.any()
    whole = search(small_data(), MODELS, SETTINGS, records=tmp_path)
    assert_same(search(small_data(), MODELS, SETTINGS, records=tmp_path, stop=lambda: True), whole)


def test_workers_are_stopped_too() -> None:
    part = search(small_data(), MODELS, SETTINGS, workers=2, chunk_size=1, stop=Patience(2))
    assert 0 < (part.epochs_run > 0).sum() < len(MODELS)


def test_a_text_stands_before_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    search(small_data(), MODELS, SETTINGS, progress=True, label="GAR on trees")
    assert capsys.readouterr().err.splitlines()[-1].startswith("GAR on trees [####")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_deadline_cuts_a_chunk_between_epochs_and_leaves_no_record(tmp_path: Path, workers: int) -> None:
    """Ten thousand epochs of one chunk: it ends soon after the deadline, and the same search begins it anew."""
    settings = replace(SETTINGS, epochs=10_000, milestones=())
    if workers > 1:
        search(small_data(), MODELS, SETTINGS, workers=workers)  # starts them
    start = time.monotonic()
    history = search(small_data(), MODELS, settings, workers=workers, records=tmp_path, deadline=start + 1.0)
    assert time.monotonic() - start < 5.0
    assert history.is_cut
    assert not history.is_complete
    assert 0 < history.epochs_run.max() < 10_000
    assert not list(tmp_path.rglob("*.npz"))
