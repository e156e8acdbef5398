"""``gar images``: predict a target from images, for any table of them. ``gar agedb`` shares its options and runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import CommaList, Grid, option, several
from gar.registry import LOSSES, METRICS
from gar.vision.defaults import AUGMENTATIONS, LEARNING_RATES, SEEDS, WEIGHT_DECAYS, probe_losses

if TYPE_CHECKING:
    from gar.vision import ImageSettings, ImageTable, Probe

F = TypeVar("F", bound=Callable[..., Any])
Grids = dict[str, Sequence[float | None]]
"""Values of the parameter to try for each loss; None is the default of the loss."""

_FOLDER = click.Path(path_type=Path, file_okay=False)
_COUNT, _COUNT_OR_NONE, _SIDE = click.IntRange(min=1), click.IntRange(min=0), click.IntRange(min=16)
_NUMBERS, _WHOLE = CommaList(float, "numbers"), CommaList(int, "whole numbers")
_PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")
_MANY_ROWS = 2000
"""From this many training rows on, a probe is trained by one process per core."""


def table_options(command: F) -> F:
    """Add the argument TABLE and the options that name its columns."""
    return several(
        click.argument("table", type=click.Path(path_type=Path)),
        click.option("--target", required=True, metavar="COL", help="Column of the values to predict."),
        click.option("--path", default="path", show_default=True, metavar="COL", help="Column of the images' paths."),
        click.option("--split", default="split", show_default=True, metavar="COL", help="Column that says train, val or test."),
        click.option("--root", type=click.Path(path_type=Path), help="Folder that paths start from [default: that of TABLE]."),
    )(command)


def loss_options(default: str, *, alpha: str) -> Callable[[F], F]:
    """Add the losses of a regressor and the values of their parameters."""
    return several(
        _loss_and_alpha([name for name, spec in LOSSES.items() if "pred" in spec.inputs], default, alpha),
        option("--parameters", type=Grid(), multiple=True, help="Values to try for another loss: huber=0.25,1,4."),
    )


def _loss_and_alpha(known: Sequence[str], default: str, alpha: str) -> Callable[[F], F]:
    return several(
        option("--loss", "losses", type=CommaList(str, "losses", known), default=default, help="One, or several to compare."),
        option("--alpha", type=_NUMBERS, help=f"Values of GAR's alpha to try [default: {alpha}]."),
    )


def _grid_options(learning_rates: Sequence[float], weight_decays: Sequence[float], seeds: Sequence[int]) -> Callable[[F], F]:
    def listed(values: Sequence[float]) -> str:
        return ",".join(f"{value:g}" for value in values)

    return several(
        option("--learning-rates", type=_NUMBERS, default=listed(learning_rates), help="Learning rates to try."),
        option("--weight-decays", type=_NUMBERS, default=listed(weight_decays), help="Weight decays to try."),
        option("--seeds", type=_WHOLE, default=listed(seeds), help="Random seeds, with a run for each."),
    )


def temperature_option(default: float) -> Callable[[F], F]:
    """Add the temperature of Rank-N-Contrast."""
    return option(
        "--temperature", type=click.FloatRange(min=0, min_open=True), default=default, help="Temperature of Rank-N-Contrast."
    )


def training_options(
    out: str,
    *,
    epochs: int = 100,
    batch_size: int = 64,
    learning_rates: Sequence[float] = (0.02,),
    weight_decays: Sequence[float] = (1e-4,),
    seeds: Sequence[int] = (1,),
    views: int | None = None,
) -> Callable[[F], F]:
    """Add the hyperparameters of training, with the defaults of a command."""
    return several(
        _grid_options(learning_rates, weight_decays, seeds),
        option("--epochs", type=_COUNT, default=epochs, help="Passes over the training images."),
        option("--batch-size", type=_COUNT, default=batch_size, help="Images of a batch."),
        option("--views", type=_COUNT, default=views, help="Views of an image in a batch [default: 1; 2 for losses of features]."),
        option("--augmentation", type=click.Choice(AUGMENTATIONS), default="paper", help="Views: the paper's, or milder ones."),
        option("--size", type=_SIDE, default=224, help="Side of the views, in pixels."),
        option("--out", type=_FOLDER, default=out, help="Folder of runs and results."),
    )


def machine_options(command: F) -> F:
    """Add where and how to compute."""
    return several(
        option("--accelerator", type=click.Choice(["auto", "cpu", "gpu", "mps"]), default="auto", help="Kind of device."),
        option("--devices", type=_COUNT, default=1, help="Number of devices; each is a process (DDP) with its share of a batch."),
        option(
            "--precision",
            type=click.Choice(_PRECISIONS),
            help="Floating-point precision [default: half on a GPU, single elsewhere].",
        ),
        option("--workers", type=_COUNT_OR_NONE, help="Processes that prepare images [default: 0; up to 8 with a GPU]."),
        option("--quiet", is_flag=True, help="No progress bar."),
    )(command)


def probe_options(losses: str) -> Callable[[F], F]:
    """Add the hyperparameters of linear probes; the default grids are the paper's."""
    return several(
        _loss_and_alpha(probe_losses(), losses, "0.1,1,10"),
        _grid_options(LEARNING_RATES, WEIGHT_DECAYS, SEEDS),
        option("--epochs", type=_COUNT, default=100, help="Passes over the features."),
        option("--batch-size", type=_COUNT, default=64, help="Rows of a batch."),
        option("--size", type=_SIDE, default=224, help="Side of the view, in pixels."),
        option("--workers", type=_COUNT_OR_NONE, default=0, help="Processes that prepare images."),
        option("--out", type=_FOLDER, help="Folder of features and results [default: that of the checkpoint]."),
        option("--quiet", is_flag=True, help="No progress line."),
    )


@click.group()
def images() -> None:
    """Train ResNet18 to predict a target from images: from scratch, or by linear probes on a pre-trained encoder.

    TABLE is a CSV (or Parquet, ...) file with a row for each image: its path, its target, and its split: train, val or test. All
    files are checked before anything is trained. Every epoch writes a checkpoint: the same command resumes after an interruption.
    """


@images.command()
@table_options
@loss_options("gar", alpha="1")
@training_options("gar-images")
@click.option("--raw-targets", is_flag=True, help="Train on targets as they are, instead of standardised.")
@machine_options
def train(table: Path, raw_targets: bool, **given: Any) -> None:
    """Train from scratch with one loss or several; the best epoch on val is tested."""
    run_training(_read(table, given), loss_grids(given), standardise=not raw_targets, given=given)


@images.command()
@table_options
@temperature_option(2.0)
@training_options("gar-encoder")
@machine_options
def pretrain(table: Path, temperature: float, **given: Any) -> None:
    """Train an encoder by Rank-N-Contrast, for 'gar images probe'."""
    run_training(_read(table, given), {"rnc": (temperature,)}, standardise=False, given=given)


@images.command()
@table_options
@click.argument("checkpoint", type=click.Path(path_type=Path))
@probe_options("mae,gar")
def probe(table: Path, checkpoint: Path, **given: Any) -> None:
    """Train linear regressors on features of a frozen encoder.

    CHECKPOINT is the folder of a run of 'gar images pretrain', or a file with weights of a ResNet18. Features are computed once and
    cached. All configurations and seeds of a loss are trained together.
    """
    run_probe(_read(table, given), checkpoint, given)


def _read(file: Path, given: dict[str, Any]) -> "ImageTable":
    """Return the table of images that the options describe, from a file of any format that ``gar compare`` reads."""
    from gar.app.tables import read_table
    from gar.vision import read_images

    columns = {name: given[name] for name in ("target", "path", "split")}
    return read_images(read_table(file), root=given["root"] or file.parent, name=str(file), **columns)


def loss_grids(given: dict[str, Any], **defaults: Sequence[float]) -> Grids:
    """Return what ``--loss``, ``--alpha`` and ``--parameters`` ask for."""
    for loss in given["losses"]:
        if loss in LOSSES and "pred" not in LOSSES[loss].inputs:
            raise click.UsageError(f"{loss} trains an encoder without a head; use the command pretrain.")
    asked = dict(given["parameters"]) | ({} if given["alpha"] is None else {"gar": given["alpha"]})
    unused = sorted(asked.keys() - set(given["losses"]))
    if unused:
        raise click.UsageError(f"There are parameters for {', '.join(unused)}, but --loss is {','.join(given['losses'])}.")
    return {loss: asked.get(loss, defaults.get(loss, (None,))) for loss in given["losses"]}


def run_training(table: "ImageTable", grids: Grids, *, standardise: bool, given: dict[str, Any]) -> None:
    """Train all losses with their parameters, learning rates, decays and seeds, one run after another."""
    from gar.vision import Machine, check_images, train_study
    from gar.vision.training import is_global_zero

    runs, out = _runs(grids, standardise, given), given["out"]
    where = {name: given[name] for name in ("accelerator", "devices", "precision", "workers")}
    check_images(table)
    try:
        rows = train_study(table, runs, out, machine=Machine(**where, progress=not given["quiet"]), callback=_report_run)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. Every finished epoch has a checkpoint in {out}; the same command resumes from there.", err=True)
        raise
    if is_global_zero():
        _show(rows, out / "results.json")
        click.echo(f"Runs:    {', '.join(str(out / name) for row in rows if row['chosen'] for name in row['runs'])}")


def _runs(grids: Grids, standardise: bool, given: dict[str, Any]) -> list["ImageSettings"]:
    from gar.vision import ImageSettings

    names = ("epochs", "batch_size", "size", "views", "augmentation")
    shared = {name: given[name] for name in names} | {"standardise": standardise}
    return [
        ImageSettings(loss=loss, parameter=parameter, learning_rate=rate, weight_decay=decay, seed=seed, **shared)
        for loss, grid in grids.items()
        for parameter in grid
        for rate in given["learning_rates"]
        for decay in given["weight_decays"]
        for seed in given["seeds"]
    ]


def run_probe(table: "ImageTable", checkpoint: Path, given: dict[str, Any]) -> None:
    """Compute features once, then train a stack of linear regressors for each loss."""
    import json

    import torch

    from gar.files import write_whole
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
    write_whole(out / "probe.json", json.dumps(rows, indent=1).encode())
    _show(rows, out / "probe.json")


def _row(probe: "Probe", seeds: Sequence[int]) -> dict[str, Any]:
    """Return the winner of a probe in the form of :func:`gar.vision.train_study`."""
    names = ("loss", "parameter", "learning_rate", "weight_decay")
    scores = {
        name: {metric: [probe.best.mean(split, metric), probe.best.std(split, metric)] for metric in METRICS}
        for name, split in (("val", "valid"), ("test", "test"))
    }
    return {**{name: getattr(probe, name) for name in names}, "seeds": list(seeds), **scores, "chosen": True}


def _report_run(settings: "ImageSettings", result: dict[str, Any] | None) -> None:
    state = "..." if result is None else ", ".join(f"val {name} {value:.4g}" for name, value in result["val"].items())
    click.echo(f"{settings.name}: {state}")


def _show(rows: list[dict[str, Any]], file: Path) -> None:
    """Print a row for each configuration: mean (sd) over seeds; a star marks the best of a loss on the validation images."""
    from rich.box import HORIZONTALS
    from rich.console import Console
    from rich.table import Table

    split = "test" if "test" in rows[0] else "val"
    title = f"{split} images, mean (sd) over seeds; * is best on val"
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
