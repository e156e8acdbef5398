"""``gar compare`` and ``gar demo``."""

import itertools
import json
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

_MINUTES = 9.0
"""Time limit of a comparison, unless one is given or everything is wanted."""
_ONE_PROCESS_MINUTES = 0.5
"""With a limit up to this, the start of worker processes would take more time than they save."""
_DEMO_SECONDS = 40.0
"""Seconds up to which losses join the demonstration on a table."""


@click.command()
@click.argument("data", required=False, type=FileOrDataName())
@click.option("-t", "--target", "targets", multiple=True, metavar="COL[,COL]", help="Columns to predict.")
@click.option("--group", metavar="COL", help="How to split: rows of equal value are never in training and test alike.")
@click.option("--time", metavar="COL", help="Column of time: rows are split in its order, and the last fifth is tested.")
@click.option("--pairs-within", metavar="COL", help="How to compare: losses compare rows of equal value only; it splits nothing.")
@click.option("--drop", multiple=True, metavar="COL[,COL]", help="Columns to leave out of the features.")
@text_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the report [default: gar-report, or gar-report-2 ...].")
@comparison_options
def compare(
    data: str | None,
    targets: tuple[str, ...],
    group: str | None,
    time: str | None,
    pairs_within: str | None,
    drop: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    out: Path | None,
    **given: Any,
) -> None:
    """Compare losses on a table: which one predicts best, by how much, and is it luck?

    DATA is a CSV, Parquet, ARFF, Excel or NPZ file, or the name of a data set: 'diabetes', 'sine', 'squared-sine', and those of
    installed packages. Without it, these three are used.

    A fifth of the rows are test rows. The rest is split into cross-validation folds, and every loss is one GARRegressorCV on
    these. A constant and a linear model stand beside them. A folder holds one report: that of another command is not replaced,
    unless --out names it.

    --group and --time decide which rows are test rows. --pairs-within decides which rows a loss compares, and within which rows
    correlations are taken: those of a day or a person, say.
    """
    columns = {"targets": targets, "group": group, "time": time, "pairs_within": pairs_within, "drop": drop}
    form = {"delimiter": delimiter, "encoding": encoding}
    if data is None and any(columns.values()):
        raise click.UsageError("--target, --group, --time, --pairs-within and --drop are about the columns of DATA; name a file.")
    if data is None and any(form.values()):
        raise click.UsageError("--delimiter and --encoding are about the text of DATA; name a file.")
    given["metric"] = given["metric"] or ("mae" if pairs_within is None else "pearson")
    _run(_built_in if data is None else lambda: [_problem(data, columns, form)], out=out or _free_folder(), **given)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default="gar-demo", show_default=True, help="Folder of the report.")
@comparison_options
def demo(**given: Any) -> None:
    """Compare on built-in data: diabetes and the paper's two curves, about two minutes on two cores."""
    given["metric"] = given["metric"] or "mae"
    _run(_built_in, affordable=_DEMO_SECONDS, **given)


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
    dry_run: bool,
    quiet: bool,
    affordable: float | None = None,
    **chosen: Any,
) -> None:
    """Check the options, then compare on the problems and print what was found."""
    start = time.monotonic() - time.process_time()  # when the process began, or a little later
    from gar.app.compare import Options, compare_and_report, plan_problem
    from gar.app.compare.plan import AFFORDABLE
    from gar.app.report.terminal import print_results
    from gar.search import RunContext

    if out.exists() and not out.is_dir():
        raise click.BadParameter(f"{str(out)!r} is a file; name a folder.", param_hint="--out")
    for module in plugins:
        import_plugin(module)
    options = Options(parameters=dict(parameters), **chosen)
    found = problems()
    minutes = time_limit or (None if options.full else _MINUTES)
    deadline = None if minutes is None else start + 60.0 * minutes
    if workers == -1 and backend == "loky" and minutes is not None and minutes <= _ONE_PROCESS_MINUTES:
        workers = 1
    context = RunContext(workers=workers, backend=backend, address=address, progress=not quiet, deadline=deadline)
    affordable = affordable or (60.0 * time_limit if time_limit else AFFORDABLE)
    if dry_run:
        for one in found:
            click.echo("\n".join(plan_problem(one, options, context, affordable=affordable).lines))
        return
    announce = None if quiet else lambda lines: click.echo("Plan: " + "\n      ".join(lines), err=True)
    try:
        report = compare_and_report(found, options, context, out=out, command=_command(), affordable=affordable, announce=announce)
    except KeyboardInterrupt:
        click.echo(_interrupted(out), err=True)
        raise
    print_results(report.results)
    if report.is_late:
        click.echo(
            "The time limit was reached: some losses were trained for less than planned, or not at all; the notes say which."
        )
    click.echo(f"Report: {report.page}")
    if report.model is not None:
        click.echo(f"Model:  {report.model} (use it: gar predict {shlex.quote(str(report.model))} DATA)")


def _command() -> str:
    return shlex.join(["gar", *sys.argv[1:]])


def _free_folder() -> Path:
    """Return the default folder, or one with a number if another command's report is in it."""
    for number in itertools.count(1):
        folder = Path("gar-report" if number == 1 else f"gar-report-{number}")
        try:
            made_by = json.loads((folder / "results.json").read_bytes())["command"]
        except (OSError, ValueError, KeyError, TypeError):
            return folder
        if made_by == _command():
            return folder
    raise AssertionError


def _interrupted(out: Path) -> str:
    """Return what is kept of an interrupted comparison."""
    records = out / "records"
    kept = [path for pattern in ("loss-*/model.safetensors", "*/*.npz") for path in records.glob(pattern)]
    if not kept:
        return "Interrupted before any loss was finished: nothing is kept."
    return (
        f"Interrupted. What is finished is kept in {records}; the same command continues from there, without a report until then."
    )


def _built_in() -> "list[Source | str]":
    from gar.app.compare import DEFAULT, problem_named

    return [problem_named(name) for name in DEFAULT]


def _problem(data: str, columns: dict[str, Any], form: dict[str, Any]) -> "Source | str":
    """Return a file as a table, or a data set or curve by name."""
    from gar.app.compare import problem_named, source_of_file

    if Path(data).exists() or Path(data).suffix:
        return source_of_file(data, **columns, **form)
    problem = problem_named(data, group=columns["group"])
    if any(value for name, value in columns.items() if name != "group"):
        raise click.UsageError(
            f"{data} is a data set, whose columns are known; leave out --target, --time, --pairs-within and --drop."
        )
    if any(form.values()):
        raise click.UsageError(f"{data} is a data set, whose files are known; leave out --delimiter and --encoding.")
    return problem
