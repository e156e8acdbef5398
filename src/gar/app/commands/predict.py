"""``gar predict``."""

from pathlib import Path

import click

from gar.app.commands.values import text_options


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@text_options
@click.option("--keep", multiple=True, metavar="COL[,COL]", help="Columns of DATA to write beside the predictions, such as an id.")
@click.option("--fill", multiple=True, metavar="COL[,COL]", help="Columns that DATA lacks, to be taken as missing in all rows.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), help="CSV file to write, or - [default: print]."
)
def predict(
    model: Path,
    data: Path,
    delimiter: str | None,
    encoding: str | None,
    keep: tuple[str, ...],
    fill: tuple[str, ...],
    out: Path | None,
) -> None:
    """Predict the rows of a table with a saved model.

    MODEL is the folder that 'gar compare' saved a model in, or its report folder. DATA is a file with the columns that the model
    was trained on; others are ignored. The result is CSV with one column per target, rows in the order of DATA. A name that a
    spreadsheet would take for a formula, such as '=1+1', gets an apostrophe in front.

    Where DATA has the targets, too, their scores are shown on stderr, and so is the number of rows that lie outside of what the
    model was trained on.
    """
    if out is not None and not out.parent.is_dir():
        raise click.BadParameter(f"the folder {str(out.parent)!r} does not exist; make it, or name another.", param_hint="--out")
    from gar.app.compare.predictions import predict_table
    from gar.app.models import finish_output, load_model
    from gar.app.tables import read_with_notes
    from gar.files import write_whole

    for folder in (model, model.parent):
        finish_output(folder)
    inner = model / "model"
    trained = load_model(inner if inner.is_dir() else model)
    words = tuple(column.name for column in trained.encoders[0].categorical_columns)
    frame, notes = read_with_notes(data, delimiter=delimiter, encoding=encoding, text=words)
    table, more = predict_table(trained, frame, keep=keep, fill=fill)
    for note in (*notes, *more):
        click.echo(f"Note: {note}", err=True)
    text = table.to_csv(index=False, lineterminator="\n")
    if out is None or str(out) == "-":
        click.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
        click.echo(f"{len(table)} predictions: {out}")
