"""``gar agedb``: the paper's experiments on images, with its settings."""

from pathlib import Path
from typing import Any

import click

from gar.app.commands.images import (
    loss_grids,
    loss_options,
    machine_options,
    probe_options,
    run_probe,
    run_training,
    temperature_option,
    training_options,
)
from gar.vision import defaults
from gar_reproduction import agedb as paper

_SIZE: dict[str, Any] = {"epochs": paper.EPOCHS, "batch_size": paper.BATCH_SIZE, "views": defaults.PAPER_VIEWS}
_GRID = {"learning_rates": paper.RATES, "weight_decays": paper.DECAYS}
_DATA = click.option("--data-dir", type=click.Path(path_type=Path), help="Data folder [default: see 'gar data path'].")


@click.group()
def agedb() -> None:
    """Predict ages from photographs: the paper's experiments on AgeDB.

    The owners give the images on request ('gar data info agedb'). Put them into agedb/AgeDB in the data folder, with
    the list agedb/agedb.csv. Every epoch has a checkpoint: the same command continues an interrupted training.
    """


@agedb.command()
@_DATA
@loss_options("gar", alpha="0.1")
@training_options("gar-agedb/scratch", learning_rates=(0.2,), weight_decays=(1e-4,), seeds=paper.SEEDS, **_SIZE)
@click.option("--grid", is_flag=True, help="Try the paper's six learning rates and four decays instead.")
@machine_options
def scratch(data_dir: Path | None, grid: bool, **given: Any) -> None:
    """Train ResNet18 from scratch."""
    chosen = {**given, **_GRID} if grid else given
    run_training(paper.agedb_table(data_dir), loss_grids(chosen, gar=(0.1,)), standardise=False, given=chosen)


@agedb.command()
@_DATA
@temperature_option(paper.TEMPERATURE)
@training_options("gar-agedb/encoder", learning_rates=(paper.ENCODER_RATE,), weight_decays=(paper.ENCODER_DECAY,), **_SIZE)
@machine_options
def pretrain(data_dir: Path | None, temperature: float, **given: Any) -> None:
    """Train an encoder by Rank-N-Contrast."""
    run_training(paper.agedb_table(data_dir), {"rnc": (temperature,)}, standardise=False, given=given)


@agedb.command()
@_DATA
@click.argument("checkpoint", type=click.Path(path_type=Path))
@probe_options("mae,mse,huber,focal_mae,focal_mse,gar")
def probe(data_dir: Path | None, checkpoint: Path, **given: Any) -> None:
    """Train linear regressors on features of a frozen encoder: the paper's grid and seeds.

    CHECKPOINT is the folder of a run of 'gar agedb pretrain', or a file with weights of a ResNet18.
    """
    run_probe(paper.agedb_table(data_dir), checkpoint, given)
