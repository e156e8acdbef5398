"""Several runs and what they show: configurations over seeds, and the one that the validation images choose."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gar.files import write_whole
from gar.vision.images import ImageTable
from gar.vision.training import ImageSettings, Machine, check_fit, is_first_process, train_images

SUMMARY = "results.json"
_CHOOSES = ("mae", "loss")
"""The number on the validation images that chooses: of a regressor, and of an encoder, which has nothing else."""

Tell = Callable[[ImageSettings, dict[str, Any] | None], None]


def _silence(settings: ImageSettings, result: dict[str, Any] | None) -> None:
    pass


def train_study(
    table: ImageTable,
    runs: Sequence[ImageSettings],
    folder: str | os.PathLike[str],
    *,
    machine: Machine | None = None,
    tell: Tell = _silence,
) -> list[dict[str, Any]]:
    """Train all runs, each in its own folder below ``folder``, and sum them up in ``results.json``; finished runs are only read.

    Args:
        table: of images.
        runs: what to train.
        folder: of the study; it is made if need be.
        machine: where to train.
        tell: called by the first process before a run with its settings and None, and after it with its result.

    Returns:
        For every configuration its settings but the seed, its ``seeds``, the names of their ``runs``, mean and standard deviation
        (divided by n) of metrics on ``val`` and ``test``, and whether it is ``chosen``: the best of its loss on the validation
        images.
    """
    results, out, machine = [], Path(folder), machine or Machine()
    say = tell if is_first_process() else _silence
    for settings in runs:
        check_fit(settings, table, machine)  # before the first is trained
    for settings in runs:
        say(settings, None)
        results.append(train_images(table, settings, out / settings.name, machine=machine))
        say(settings, results[-1])
    summary = summed_up(results)
    if is_first_process():
        write_whole(out / SUMMARY, json.dumps(summary, indent=1).encode())
    return summary


def summed_up(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of single runs by configuration."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        configuration = {name: value for name, value in result["settings"].items() if name != "seed"}
        groups.setdefault(json.dumps(configuration), []).append(result)
    rows = [{**json.loads(key), **_over_seeds(members), "chosen": False} for key, members in groups.items()]
    for loss in {row["loss"] for row in rows}:
        min((row for row in rows if row["loss"] == loss), key=_cost)["chosen"] = True
    return rows


def _over_seeds(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each split and metric the mean and standard deviation."""
    found: dict[str, Any] = {"seeds": [one["settings"]["seed"] for one in members], "runs": [one["name"] for one in members]}
    for split in ("val", "test"):
        for metric in members[0].get(split, ()):
            values = [one[split][metric] for one in members]
            found.setdefault(split, {})[metric] = [float(np.mean(values)), float(np.std(values))]
    return found


def _cost(row: dict[str, Any]) -> float:
    mean = next(row["val"][name][0] for name in _CHOOSES if name in row["val"])
    return float(mean) if np.isfinite(mean) else np.inf
