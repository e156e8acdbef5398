"""``gar compare`` and ``gar demo``."""

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import CommaList, FileOrDataName, Grid, Widths, backend_options, option, several, text_options
from gar.registry import FAMILIES, LOSSES, METRICS, NETWORKS

if TYPE_CHECKING:
    from gar.app.compare import Options, Source

F = TypeVar("F", bound=Callable[..., Any])


def training_options(command: F) -> F:
    """Add the options that both commands share."""
    numbers, count = CommaList(float, "numbers"), click.IntRange(min=1)
    trees = "Networks (mlp), and boosted trees (xgboost, lightgbm) with mae, mse, huber and gar."
    rates = "Learning rates to try [default: 0.02,0.005; curves 0.01,0.003]."
    limit = "Minutes after which the report is written with what is finished."
    plugin = "Python module that registers losses of your own on import."
    return several(
        option("--losses", type=CommaList(str, "losses", LOSSES), help="Losses to compare [default: the paper's nine]."),
        option("--plugin", "plugins", multiple=True, metavar="MODULE", help=plugin),
        option("--models", "families", type=CommaList(str, "models", FAMILIES), default=NETWORKS, help=trees),
        option("--parameters", type=Grid(), multiple=True, help="Values to try of a loss's parameter: gar=0.1,1,10."),
        option("--metric", type=click.Choice(list(METRICS)), default="mae", help="Validation metric that selects winners."),
        option("--preset", type=click.Choice(["paper"]), help="The paper's preset: SGD, its grids and networks, raw labels."),
        option("--epochs", type=count, help="Passes over the training rows [default: 100; curves 300]."),
        option("--batch-size", type=count, help="Rows of a mini-batch [default: 32; curves 128]."),
        option("--hidden-sizes", type=Widths(), help="Widths of hidden layers, or 'paper' [default: 128,128]."),
        option("--learning-rates", type=numbers, help=rates),
        option("--weight-decays", type=numbers, help="Weight decays to try [default: 0.1,0.001; curves 0]."),
        option("--folds", type=click.IntRange(min=2), default=5, help="Number of cross-validation folds."),
        option("--seed", type=click.IntRange(min=0), default=123, help="Random seed of splits and networks."),
        option("--workers", type=int, default=-1, help="Number of processes; -1 is one per core."),
        backend_options,
        option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="MIN", help=limit),
        option("--quiet", is_flag=True, help="Show no progress bar."),
    )(command)


@click.command()
@click.argument("data", required=False, type=FileOrDataName())
@click.option("-t", "--target", "targets", multiple=True, metavar="COL[,COL]", help="Columns to predict.")
@click.option("--group", metavar="COL", help="Column whose equal values mark rows that stay together in a split.")
@click.option("--drop", multiple=True, metavar="COL[,COL]", help="Columns to leave out of the features.")
@text_options
@click.option("--out", type=click.Path(path_type=Path), default="gar-report", show_default=True, help="Folder of the report.")
@training_options
def compare(data: str | None, out: Path, **given: Any) -> None:
    """Compare losses on a table: which one predicts best, by how much, and is it luck?

    DATA is a CSV, Parquet, ARFF, Excel or NPZ file, or the name of a data set: 'diabetes', 'sine', 'squared-sine', and those of
    installed packages. Without it, these three are used.

    A fifth of the rows are test rows. The rest is split into cross-validation folds, and every loss is trained with its whole
    grid on each.
    """
    columns = {name: given.pop(name) for name in ("targets", "group", "drop")}
    form = {name: given.pop(name) for name in ("delimiter", "encoding")}
    if data is None and any(columns.values()):
        raise click.UsageError("--target, --group and --drop are about the columns of DATA; name a file.")
    if data is None and any(form.values()):
        raise click.UsageError("--delimiter and --encoding are about the text of DATA; name a file.")
    options = _options(given)
    _run(_built_in() if data is None else [_problem(data, columns, form)], options, out, given)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default="gar-demo", show_default=True, help="Folder of the report.")
@training_options
def demo(out: Path, **given: Any) -> None:
    """Compare on built-in data: diabetes and the paper's two curves, three to four minutes on two cores."""
    options = _options(given)
    _run(_built_in(), options, out, given)


def _options(given: dict[str, Any]) -> "Options":
    from gar.app.compare import Options
    from gar.app.plugins import import_plugin

    for module in given["plugins"]:
        import_plugin(module)
    others = ("workers", "backend", "address", "time_limit", "quiet", "plugins", "parameters")
    chosen = {name: value for name, value in given.items() if name not in others}
    return Options(parameters=dict(given["parameters"]), **chosen)


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


def _run(problems: "list[Source | str]", options: "Options", out: Path, given: dict[str, Any]) -> None:
    from gar.app.compare import compare_and_report
    from gar.app.report.terminal import print_results
    from gar.search import RunContext

    if out.exists() and not out.is_dir():
        raise click.BadParameter(f"{str(out)!r} is a file; name a folder.", param_hint="--out")
    context = RunContext(
        workers=given["workers"],
        backend=given["backend"],
        address=given["address"],
        progress=not given["quiet"],
        deadline=None if given["time_limit"] is None else time.monotonic() + 60.0 * given["time_limit"],
    )
    try:
        report = compare_and_report(problems, options, context, out=out, command=shlex.join(["gar", *sys.argv[1:]]))
    except KeyboardInterrupt:
        click.echo(f"Interrupted. What is finished is kept in {out / 'records'}; the same command continues from there.", err=True)
        raise
    print_results(report.results, None)
    if report.is_late:
        click.echo("The time limit was reached: the report holds what was finished. The same command continues.")
    click.echo(f"Report: {report.page}")
    if report.model is not None:
        click.echo(f"Model:  {report.model} (use it: gar predict {shlex.quote(str(report.model))} DATA)")
