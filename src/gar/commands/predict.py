"""``gar predict``."""

from pathlib import Path

import click


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="CSV file to write [default: print].")
def predict(model: Path, data: Path, out: Path | None) -> None:
    """Predict the rows of a table with a saved model.

    MODEL is the folder that 'gar compare' saved a model in, or its report folder. DATA is a file with the columns that the model
    was trained on; others are ignored. The result is CSV with one column per target, rows in the order of DATA.
    """
    import pandas as pd

    from gar.datasets import read_table
    from gar.files import write_whole
    from gar.models import load_model

    inner = model / "model"
    trained = load_model(inner if inner.is_dir() else model)
    table = pd.DataFrame(trained.predict(read_table(data)), columns=list(trained.targets))
    text = table.to_csv(index=False, lineterminator="\n")
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
        click.echo(f"{len(table)} predictions: {out}")
