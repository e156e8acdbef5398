"""``gar images``: predict a target from images, for any table of them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import several
from gar.app.commands.vision import (
    loss_grids,
    loss_options,
    machine_options,
    probe_options,
    run_probe,
    run_training,
    temperature_option,
    training_options,
)

if TYPE_CHECKING:
    from gar.vision import ImageTable

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def images() -> None:
    """Train ResNet18 to predict a target from images: from scratch, or by linear probes on a pre-trained encoder.

    TABLE is a CSV (or Parquet, ...) file with a row for each image: its path, its target, and its split: train, val or test. All
    files are checked before anything is trained. Every epoch writes a checkpoint: the same command resumes after an interruption.
    """


def table_options(command: F) -> F:
    """Add the argument TABLE and the options that name its columns."""
    return several(
        click.argument("table", type=click.Path(path_type=Path)),
        click.option("--target", required=True, metavar="COL", help="Column of the values to predict."),
        click.option("--path", default="path", show_default=True, metavar="COL", help="Column of the images' paths."),
        click.option("--split", default="split", show_default=True, metavar="COL", help="Column that says train, val or test."),
        click.option("--root", type=click.Path(path_type=Path), help="Folder that paths start from [default: that of TABLE]."),
    )(command)


def _read(file: Path, given: dict[str, Any]) -> "ImageTable":
    """Return the table of images that the options describe, from a file of any format that ``gar compare`` reads."""
    from gar.app.tables import read_table
    from gar.vision import read_images

    columns = {name: given[name] for name in ("target", "path", "split")}
    return read_images(read_table(file), root=given["root"] or file.parent, name=str(file), **columns)


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
