"""``gar data``: the catalog of data sets and their files."""

import sys
import textwrap

import click

from gar.app.commands.values import DataName

_WIDTH = 120


@click.group()
def data() -> None:
    """Data sets of the paper: what they are, where they are, and how to get them.

    Files are kept in the folder that GAR_DATA_HOME names, or else in the user's cache folder.
    """


@data.command("list")
def list_sets() -> None:
    """List all data sets, and whether their files are here."""
    from gar_reproduction.data.catalog import describe, names
    from gar_reproduction.data.files import available

    for name in names():
        entry = describe(name)
        state = "ready" if available(name) else "not here"
        size = f"{entry.rows} x {entry.features}"
        click.echo(f"{name:<18} {size:>15}  {len(entry.targets):>2} {_plural(entry.targets):<8} {state:<9} {entry.title}")


@data.command()
@click.argument("name", type=DataName())
def info(name: str) -> None:
    """Describe a data set: size, licence, citation, and what to know about it."""
    from gar_reproduction.data.catalog import describe
    from gar_reproduction.data.files import available, notes_on
    from gar_reproduction.folders import data_home

    entry = describe(name)
    lines = {
        "name": entry.name,
        "rows": str(entry.rows),
        "features": str(entry.features),
        _plural(entry.targets): ", ".join(entry.targets),
        "groups": entry.groups or "none",
        "licence": entry.licence,
        "citation": entry.citation,
        "homepage": entry.homepage,
        "files": ", ".join(str(data_home() / file.path) for file in entry.files) or f"none: it is {entry.origin}",
        "state": "ready" if available(name) else "not here",
    }
    click.echo(click.style(entry.title, bold=True))
    for label, text in [*lines.items(), *(("note", note) for note in notes_on(entry))]:
        click.echo(textwrap.fill(f"{label + ':':<10} {text}", width=_WIDTH, subsequent_indent=" " * 11))


@data.command()
@click.argument("names", type=DataName(), nargs=-1, required=True, metavar="NAME...")
def fetch(names: tuple[str, ...]) -> None:
    """Download data sets, check them and keep them in the data folder."""
    from gar_reproduction.data.catalog import describe
    from gar_reproduction.data.files import fetch as fetch_files

    for name in names:
        describe(name)  # a wrong name is an error before anything is downloaded
    for name in names:
        files = fetch_files(name, progress=_show)
        for file in files:
            click.echo(f"{name}: {file}")
        if not files:
            click.echo(f"{name}: nothing to fetch, it is {describe(name).origin}")


@data.command()
@click.argument("name", type=DataName(), required=False)
def path(name: str | None) -> None:
    """Show the data folder, or that of one data set."""
    from gar_reproduction.data.files import path as path_of
    from gar_reproduction.folders import data_home

    click.echo(data_home() if name is None else path_of(name))


def _show(received: int, total: int | None) -> None:
    """Show the progress of a download in one line, on a terminal only."""
    stream = sys.stderr
    if stream.isatty():
        whole = "" if total is None else f" of {total / 1e6:.1f}"
        end = "\n" if received == total else ""
        stream.write(f"\r{received / 1e6:.1f}{whole} MB\x1b[K{end}")
        stream.flush()


def _plural(targets: tuple[str, ...]) -> str:
    return "target" if len(targets) == 1 else "targets"
