"""``gar images``: a number from images, for any table of them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import several
from gar.app.commands.vision import (
    grids_of,
    learning_options,
    loss_options,
    machine_options,
    probe_options,
    run_probe,
    run_training,
    temperature_option,
)

if TYPE_CHECKING:
    from gar.vision import ImageTable

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = ("number", "path", "split", "root")


@click.group()
def images() -> None:
    """Train ResNet18 to tell a number from images: from scratch, or by linear probes on a pre-trained encoder.

    TABLE is a CSV (or Parquet, ...) file with a row for each image: its path, the number, and its split: train, val or test. All
    files are checked before anything is trained. Every epoch is kept: the same command goes on where it was interrupted.
    """


def table_options(command: F) -> F:
    """Which images."""
    return several(
        click.argument("table", type=click.Path(path_type=Path)),
        click.option("--number", required=True, metavar="COL", help="Column of the numbers to predict."),
        click.option("--path", default="path", show_default=True, metavar="COL", help="Column of the images' paths."),
        click.option("--split", default="split", show_default=True, metavar="COL", help="Column that says train, val or test."),
        click.option("--root", type=click.Path(path_type=Path), help="Folder that paths start from [default: that of TABLE]."),
    )(command)


def _table(file: Path, given: dict[str, Any]) -> "ImageTable":
    from gar.vision import read_images

    return read_images(file, **{name: given[name] for name in _COLUMNS})


@images.command()
@table_options
@loss_options("gar", alpha="1")
@learning_options("gar-images")
@click.option("--raw-numbers", is_flag=True, help="Train on numbers as they are, not in standard deviations from their mean.")
@machine_options
def train(table: Path, raw_numbers: bool, **given: Any) -> None:
    """Train from scratch with one loss or several; the best epoch on val is tested."""
    run_training(_table(table, given), grids_of(given), standardise=not raw_numbers, given=given)


@images.command()
@table_options
@temperature_option(2.0)
@learning_options("gar-encoder")
@machine_options
def pretrain(table: Path, temperature: float, **given: Any) -> None:
    """Train an encoder by Rank-N-Contrast, for 'gar images probe'."""
    run_training(_table(table, given), {"rnc": (temperature,)}, standardise=False, given=given)


@images.command()
@table_options
@click.argument("checkpoint", type=click.Path(path_type=Path))
@probe_options("mae,gar")
def probe(table: Path, checkpoint: Path, **given: Any) -> None:
    """Train linear regressors on features of a frozen encoder.

    CHECKPOINT is the folder of a run of 'gar images pretrain', or a file with weights of a ResNet18. Features are computed once and
    kept. All configurations and seeds of a loss are trained together.
    """
    run_probe(_table(table, given), checkpoint, given)
