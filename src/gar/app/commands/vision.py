"""What ``gar images`` and ``gar agedb`` share: options, runs, and tables of results."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import CommaList, Grid, option, several
from gar.registry import LOSSES, METRICS
from gar.vision.defaults import LEARNING_RATES, SEEDS, WEIGHT_DECAYS

if TYPE_CHECKING:
    from gar.vision import ImageSettings, ImageTable, Probe

F = TypeVar("F", bound=Callable[..., Any])
Grids = dict[str, Sequence[float | None]]
"""For each loss the values of its parameter to try; None is its default."""

_FOLDER = click.Path(path_type=Path, file_okay=False)
_COUNT, _COUNT_OR_NONE, _SIDE = click.IntRange(min=1), click.IntRange(min=0), click.IntRange(min=16)
_NUMBERS, _WHOLE = CommaList(float, "numbers"), CommaList(int, "whole numbers")
_PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")
_LOSSES = CommaList(str, "losses", [name for name in LOSSES if name != "rnc"])
_PROBE_LOSSES = CommaList(str, "losses", [name for name in LOSSES if name not in ("ranksim", "rnc", "conr")])
"""Losses of features have nothing to do where features are frozen."""
_MANY_ROWS = 2000
"""From so many on, a probe is worth more processes than one."""


def _listed(values: Sequence[float]) -> str:
    """As one would type them."""
    return ",".join(f"{value:g}" for value in values)


def loss_options(default: str, *, alpha: str) -> Callable[[F], F]:
    """Which losses train a regressor."""
    return several(
        option("--loss", "losses", type=_LOSSES, default=default, help="One, or several to compare."),
        option("--alpha", type=_NUMBERS, help=f"Of GAR, to try [default: {alpha}]."),
        option("--parameters", type=Grid(), multiple=True, help="Of another loss, to try: huber=0.25,1,4."),
    )


def temperature_option(default: float) -> Callable[[F], F]:
    """Of Rank-N-Contrast."""
    return option("--temperature", type=click.FloatRange(min=0, min_open=True), default=default, help="Of the contrast.")


def learning_options(
    out: str,
    *,
    epochs: int = 100,
    batch_size: int = 64,
    learning_rates: Sequence[float] = (0.02,),
    weight_decays: Sequence[float] = (1e-4,),
    seeds: Sequence[int] = (1,),
) -> Callable[[F], F]:
    """How a network is trained, with the defaults of a command."""
    return several(
        option("--learning-rates", type=_NUMBERS, default=_listed(learning_rates), help="To try."),
        option("--weight-decays", type=_NUMBERS, default=_listed(weight_decays), help="To try."),
        option("--seeds", type=_WHOLE, default=_listed(seeds), help="One run for each."),
        option("--epochs", type=_COUNT, default=epochs, help="Passes over the training images."),
        option("--batch-size", type=_COUNT, default=batch_size, help="Images of a batch; each comes in two views."),
        option("--size", type=_SIDE, default=224, help="Side of the views, in pixels."),
        option("--out", type=_FOLDER, default=out, help="Folder of runs and results."),
    )


def machine_options(command: F) -> F:
    """Where to compute."""
    return several(
        option("--accelerator", type=click.Choice(["auto", "cpu", "gpu", "mps"]), default="auto", help="What to compute on."),
        option("--devices", type=_COUNT, default=1, help="How many; each is a process (DDP), which has its share of a batch."),
        option("--precision", type=click.Choice(_PRECISIONS), help="Of numbers [default: half on a GPU, single elsewhere]."),
        option("--workers", type=_COUNT_OR_NONE, help="Processes that prepare images [default: 0; up to 8 with a GPU]."),
        option("--quiet", is_flag=True, help="No progress bar."),
    )(command)


def probe_options(losses: str) -> Callable[[F], F]:
    """How frozen features are probed; the grids are the paper's."""
    return several(
        option("--loss", "losses", type=_PROBE_LOSSES, default=losses, help="One, or several to compare."),
        option("--alpha", type=_NUMBERS, help="Of GAR, to try [default: 0.1,1,10]."),
        option("--learning-rates", type=_NUMBERS, default=_listed(LEARNING_RATES), help="To try."),
        option("--weight-decays", type=_NUMBERS, default=_listed(WEIGHT_DECAYS), help="To try."),
        option("--seeds", type=_WHOLE, default=_listed(SEEDS), help="One run for each."),
        option("--epochs", type=_COUNT, default=100, help="Passes over the features."),
        option("--batch-size", type=_COUNT, default=64, help="Rows of a batch."),
        option("--size", type=_SIDE, default=224, help="Side of the view, in pixels."),
        option("--workers", type=_COUNT_OR_NONE, default=0, help="Processes that prepare images."),
        option("--out", type=_FOLDER, help="Folder of features and results [default: that of the checkpoint]."),
        option("--quiet", is_flag=True, help="No progress line."),
    )


def grids_of(given: dict[str, Any], **defaults: Sequence[float]) -> Grids:
    """What ``--loss``, ``--alpha`` and ``--parameters`` ask for."""
    if "rnc" in given["losses"]:
        raise click.UsageError("rnc trains an encoder without a head; use the command pretrain.")
    asked = dict(given["parameters"]) | ({} if given["alpha"] is None else {"gar": given["alpha"]})
    unused = sorted(asked.keys() - set(given["losses"]))
    if unused:
        raise click.UsageError(f"There are parameters for {', '.join(unused)}, but --loss is {','.join(given['losses'])}.")
    return {loss: asked.get(loss, defaults.get(loss, (None,))) for loss in given["losses"]}


def run_training(table: "ImageTable", grids: Grids, *, standardise: bool, given: dict[str, Any]) -> None:
    """All losses with their parameters, learning rates, decays and seeds, one run after another."""
    from gar.vision import Machine, check_images, train_study
    from gar.vision.training import is_first_process

    runs, out = _runs(grids, standardise, given), given["out"]
    where = {name: given[name] for name in ("accelerator", "devices", "precision", "workers")}
    check_images(table)
    try:
        rows = train_study(table, runs, out, machine=Machine(**where, progress=not given["quiet"]), tell=_tell)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. Every finished epoch is kept in {out}; the same command goes on from there.", err=True)
        raise
    if is_first_process():
        _show(rows, out / "results.json")
        click.echo(f"Runs:    {', '.join(str(out / name) for row in rows if row['chosen'] for name in row['runs'])}")


def _runs(grids: Grids, standardise: bool, given: dict[str, Any]) -> list["ImageSettings"]:
    from gar.vision import ImageSettings

    shared = {name: given[name] for name in ("epochs", "batch_size", "size")} | {"standardise": standardise}
    return [
        ImageSettings(loss=loss, parameter=parameter, learning_rate=rate, weight_decay=decay, seed=seed, **shared)
        for loss, grid in grids.items()
        for parameter in grid
        for rate in given["learning_rates"]
        for decay in given["weight_decays"]
        for seed in given["seeds"]
    ]


def run_probe(table: "ImageTable", checkpoint: Path, given: dict[str, Any]) -> None:
    """Features once, then a stack of linear regressors for each loss."""
    import torch

    from gar.vision import check_images, image_features, linear_probe

    file = checkpoint / "last.ckpt" if checkpoint.is_dir() else checkpoint
    out = given["out"] or file.parent
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shared = {name: given[name] for name in ("learning_rates", "weight_decays", "seeds", "epochs", "batch_size")}
    check_images(table)
    parts = image_features(table, file, size=given["size"], folder=out, workers=given["workers"], device=device)
    jobs = -1 if len(parts["train"][1]) >= _MANY_ROWS else 1
    rows = []
    for loss in given["losses"]:
        alpha, line = given["alpha"] if loss == "gar" else None, False if given["quiet"] else loss
        where: dict[str, Any] = {"records": out / "records", "workers": jobs, "progress": line}
        found = linear_probe(parts["train"], parts["val"], parts["test"], loss=loss, parameters=alpha, **where, **shared)
        rows.append(_row(found, given["seeds"]))
    _save(rows, out / "probe.json")


def _row(probe: "Probe", seeds: Sequence[int]) -> dict[str, Any]:
    """The winner of a probe, in the form of :func:`gar.vision.train_study`."""
    names = ("loss", "parameter", "learning_rate", "weight_decay")
    scores = {
        name: {metric: [probe.best.mean(split, metric), probe.best.std(split, metric)] for metric in METRICS}
        for name, split in (("val", "valid"), ("test", "test"))
    }
    return {**{name: getattr(probe, name) for name in names}, "seeds": list(seeds), **scores, "chosen": True}


def _save(rows: list[dict[str, Any]], file: Path) -> None:
    import json

    from gar.files import write_whole

    write_whole(file, json.dumps(rows, indent=1).encode())
    _show(rows, file)


def _tell(settings: "ImageSettings", result: dict[str, Any] | None) -> None:
    state = "..." if result is None else ", ".join(f"val {name} {value:.4g}" for name, value in result["val"].items())
    click.echo(f"{settings.name}: {state}")


def _show(rows: list[dict[str, Any]], file: Path) -> None:
    """A row for each configuration: mean and (sd) over seeds; a star is what validation images choose."""
    from rich.box import HORIZONTALS
    from rich.console import Console
    from rich.table import Table

    split = "test" if "test" in rows[0] else "val"
    title = f"{split} images, mean (sd) of seeds; * is chosen by val"
    shown = Table("run", title=title, title_justify="left", box=HORIZONTALS, show_edge=False)
    for metric in rows[0][split]:
        shown.add_column(metric, justify="right", no_wrap=True)
    for row in rows:
        parameter = "" if row["parameter"] is None else f" {row['parameter']:g}"
        name = f"{row['loss']}{parameter}{' *' if row['chosen'] else ''}"
        how = f"rate {row['learning_rate']:g}, decay {row['weight_decay']:g}"
        shown.add_row(f"{name}\n{how}", *(f"{mean:.4g}\n({sd:.2g})" for mean, sd in row[split].values()))
    Console().print(shown)
    click.echo(f"Results: {file}")
