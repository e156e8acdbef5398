"""``gar predict``."""

from pathlib import Path

import click

from gar.app.commands.values import text_options


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@text_options
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), help="CSV file to write, or - [default: print]."
)
def predict(model: Path, data: Path, delimiter: str | None, encoding: str | None, out: Path | None) -> None:
    """Predict the rows of a table with a saved model.

    MODEL is the folder that 'gar compare' saved a model in, or its report folder. DATA is a file with the columns that the model
    was trained on; others are ignored. The result is CSV with one column per target, rows in the order of DATA. A name that a
    spreadsheet would take for a formula, such as '=1+1', gets an apostrophe in front.
    """
    if out is not None and not out.parent.is_dir():
        raise click.BadParameter(f"the folder {str(out.parent)!r} does not exist; make it, or name another.", param_hint="--out")
    import pandas as pd

    from gar.app.models import finish_output, load_model
    from gar.app.tables import read_with_notes
    from gar.files import write_whole

    for folder in (model, model.parent):
        finish_output(folder)
    inner = model / "model"
    trained = load_model(inner if inner.is_dir() else model)
    encoder = trained.encoders[0]
    words = tuple(column.name for column in encoder.categorical_columns)
    frame, notes = read_with_notes(data, delimiter=delimiter, encoding=encoding, text=words)
    table = pd.DataFrame(trained.predict(frame), columns=[_harmless(name) for name in trained.targets])
    for note in (*notes, *encoder.unknown_categories(frame)):
        click.echo(f"Note: {note}", err=True)
    text = table.to_csv(index=False, lineterminator="\n")
    if out is None or str(out) == "-":
        click.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
        click.echo(f"{len(table)} predictions: {out}")


def _harmless(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula, which could open an address or run a command."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
