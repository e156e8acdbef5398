"""``gar data``: the catalog of data sets and their files."""

import sys
import textwrap

import click

from gar_reproduction.data import files
from gar_reproduction.data.catalog import describe, names as catalog_names
from gar_reproduction.folders import data_home

_WIDTH = 120


def _known_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in catalog_names() if name.startswith(incomplete)]


@click.group()
def data() -> None:
    """Describe, find and download the data sets of the paper.

    Files are kept in the folder that GAR_DATA_HOME names, or else in the user's cache folder.
    """


@data.command("list")
def list_sets() -> None:
    """List all data sets, and whether their files are here."""
    for name in catalog_names():
        entry = describe(name)
        state = "ready" if files.available(name) else "not here"
        size = f"{entry.rows} x {entry.features}"
        click.echo(f"{name:<18} {size:>15}  {len(entry.targets):>2} {_plural(entry.targets):<8} {state:<9} {entry.title}")


@data.command()
@click.argument("name", shell_complete=_known_names)
def info(name: str) -> None:
    """Describe a data set: size, licence, citation, and what to know about it."""
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
        "state": "ready" if files.available(name) else "not here",
    }
    click.echo(click.style(entry.title, bold=True))
    for label, text in [*lines.items(), *(("note", note) for note in files.notes_on(entry))]:
        click.echo(textwrap.fill(f"{label + ':':<10} {text}", width=_WIDTH, subsequent_indent=" " * 11))


@data.command()
@click.argument("names", shell_complete=_known_names, nargs=-1, required=True, metavar="NAME...")
def fetch(names: tuple[str, ...]) -> None:
    """Download data sets into the data folder, checksums verified."""
    for name in names:
        describe(name)  # a wrong name is an error before anything is downloaded
    for name in names:
        found = files.fetch(name, progress=_show)
        for file in found:
            click.echo(f"{name}: {file}")
        if not found:
            click.echo(f"{name}: nothing to fetch, it is {describe(name).origin}")


@data.command()
@click.argument("name", shell_complete=_known_names, required=False)
def path(name: str | None) -> None:
    """Show the data folder, or that of one data set."""
    click.echo(data_home() if name is None else files.path(name))


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
