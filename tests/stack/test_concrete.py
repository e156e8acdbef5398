"""The paper's protocol on its smallest table, shortened."""

from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

from gar.stack import Models, StackData, TrainSettings, train


def test_concrete_learns_as_in_the_paper(data_home: Path) -> None:
    """A third of the epochs, the better learning rates: close to the published test Pearson of 0.929 already."""
    with np.load(data_home / "authors" / "CCS.npz") as file:
        x, y = (np.concatenate([file[f"tr{name}"], file[f"te{name}"]]) for name in "XY")
        rows, test = len(file["trX"]), np.arange(len(file["trX"]), len(x))
    data = StackData(x, y, [(a, b, test) for a, b in KFold(5).split(np.arange(rows))])
    models = Models.grid(folds=range(5), learning_rates=(1e-1, 1e-2), weight_decays=(1e-4,), parameters=(0.1, 1.0, 10.0))
    history = train(data, models, TrainSettings(epochs=35, milestones=(18, 26)))
    assert history.metrics.shape == (30, 35, 2, 5)
    valid, test_values = history.of("valid", "pearson"), history.of("test", "pearson")
    chosen = []
    for fold in range(5):
        mine = np.flatnonzero(models.fold == fold)
        g, epoch = np.unravel_index(np.nanargmax(valid[mine]), valid[mine].shape)
        chosen.append(test_values[mine[g], epoch])
    assert 0.89 < np.mean(chosen) < 0.95
