"""``gar compare`` and ``gar demo``."""

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gar.app.commands.values import FileOrDataName, comparison_options, text_options
from gar.app.plugins import import_plugin

if TYPE_CHECKING:
    from gar.app.compare import Source


@click.command()
@click.argument("data", required=False, type=FileOrDataName())
@click.option("-t", "--target", "targets", multiple=True, metavar="COL[,COL]", help="Columns to predict.")
@click.option("--group", metavar="COL", help="Column whose equal values mark rows that stay together in a split.")
@click.option("--drop", multiple=True, metavar="COL[,COL]", help="Columns to leave out of the features.")
@text_options
@click.option("--out", type=click.Path(path_type=Path), default="gar-report", show_default=True, help="Folder of the report.")
@comparison_options
def compare(
    data: str | None,
    targets: tuple[str, ...],
    group: str | None,
    drop: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    **given: Any,
) -> None:
    """Compare losses on a table: which one predicts best, by how much, and is it luck?

    DATA is a CSV, Parquet, ARFF, Excel or NPZ file, or the name of a data set: 'diabetes', 'sine', 'squared-sine', and those of
    installed packages. Without it, these three are used.

    A fifth of the rows are test rows. The rest is split into cross-validation folds, and every loss is trained with its whole
    grid on each.
    """
    columns, form = {"targets": targets, "group": group, "drop": drop}, {"delimiter": delimiter, "encoding": encoding}
    if data is None and any(columns.values()):
        raise click.UsageError("--target, --group and --drop are about the columns of DATA; name a file.")
    if data is None and any(form.values()):
        raise click.UsageError("--delimiter and --encoding are about the text of DATA; name a file.")
    _run(_built_in if data is None else lambda: [_problem(data, columns, form)], **given)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default="gar-demo", show_default=True, help="Folder of the report.")
@comparison_options
def demo(**given: Any) -> None:
    """Compare on built-in data: diabetes and the paper's two curves, three to four minutes on two cores."""
    _run(_built_in, **given)


def _run(
    problems: Callable[[], "list[Source | str]"],
    *,
    out: Path,
    plugins: Sequence[str],
    parameters: Iterable[tuple[str, tuple[float, ...]]],
    workers: int,
    backend: str,
    address: str | None,
    time_limit: float | None,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Check the options, then compare on the problems and print what was found."""
    from gar.app.compare import Options, compare_and_report
    from gar.app.report.terminal import print_results
    from gar.search import RunContext

    if out.exists() and not out.is_dir():
        raise click.BadParameter(f"{str(out)!r} is a file; name a folder.", param_hint="--out")
    for module in plugins:
        import_plugin(module)
    options = Options(parameters=dict(parameters), **chosen)
    found = problems()
    deadline = None if time_limit is None else time.monotonic() + 60.0 * time_limit
    context = RunContext(workers=workers, backend=backend, address=address, progress=not quiet, deadline=deadline)
    try:
        report = compare_and_report(found, options, context, out=out, command=shlex.join(["gar", *sys.argv[1:]]))
    except KeyboardInterrupt:
        click.echo(f"Interrupted. What is finished is kept in {out / 'records'}; the same command continues from there.", err=True)
        raise
    print_results(report.results)
    if report.is_late:
        click.echo("The time limit was reached: the report holds what was finished. The same command continues.")
    click.echo(f"Report: {report.page}")
    if report.model is not None:
        click.echo(f"Model:  {report.model} (use it: gar predict {shlex.quote(str(report.model))} DATA)")


def _built_in() -> "list[Source | str]":
    from gar.app.compare import DEFAULT, problem_named

    return [problem_named(name) for name in DEFAULT]


def _problem(data: str, columns: dict[str, Any], form: dict[str, Any]) -> "Source | str":
    """Return a file as a table, or a data set or curve by name."""
    from gar.app.compare import problem_named, source_of_file

    if Path(data).exists() or Path(data).suffix:
        return source_of_file(data, **columns, **form)
    problem = problem_named(data, group=columns["group"])
    if columns["targets"] or columns["drop"]:
        raise click.UsageError(f"{data} is a data set, whose columns are known; leave out --target and --drop.")
    if any(form.values()):
        raise click.UsageError(f"{data} is a data set, whose files are known; leave out --delimiter and --encoding.")
    return problem
