"""``gar compare`` and ``gar demo``."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import LOSSES, METRICS, MODELS, CommaList, FileOrDataName, Grid, Widths, backend_options, text_options

if TYPE_CHECKING:
    from gar.app.compare import Options, Source

F = TypeVar("F", bound=Callable[..., Any])


def training_options(command: F) -> F:
    """What both commands share."""
    decorators = [
        click.option("--losses", type=CommaList(str, "losses", LOSSES), help="Which to compare [default: the paper's nine]."),
        click.option(
            "--models",
            "families",
            type=CommaList(str, "models", MODELS),
            default="mlp",
            show_default=True,
            help="Networks (mlp), and boosted trees (xgboost, lightgbm) with mae, mse, huber and gar.",
        ),
        click.option("--parameters", type=Grid(), multiple=True, help="Values of a loss's parameter to try: gar=0.1,1,10."),
        click.option("--metric", type=click.Choice(METRICS), default="mae", show_default=True, help="What winners are judged by."),
        click.option("--preset", type=click.Choice(["paper"]), help="The paper's recipe: SGD, its grids and networks, raw labels."),
        click.option("--epochs", type=click.IntRange(min=1), help="Passes over the training rows [default: 100; curves 300]."),
        click.option("--batch-size", type=click.IntRange(min=1), help="Rows of a mini-batch [default: 32; curves 128]."),
        click.option("--hidden-sizes", type=Widths(), help="Widths of hidden layers, or 'paper' [default: 128,128]."),
        click.option("--learning-rates", type=CommaList(float, "numbers"), help="To try [default: 0.02,0.005; curves 0.01,0.003]."),
        click.option("--weight-decays", type=CommaList(float, "numbers"), help="To try [default: 0.1,0.001; curves 0]."),
        click.option("--folds", type=click.IntRange(min=2), default=5, show_default=True, help="Parts of the rows not tested."),
        click.option("--seed", type=click.IntRange(min=0), default=123, show_default=True, help="Of splits and networks."),
        click.option("--workers", type=int, default=-1, show_default=True, help="Processes; -1 is one per core."),
        backend_options,
        click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="MIN", help="Minutes; then report."),
        click.option("--quiet", is_flag=True, help="No progress line."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@click.command()
@click.argument("data", required=False, type=FileOrDataName())
@click.option("-t", "--target", "targets", multiple=True, metavar="COL[,COL]", help="Columns to predict.")
@click.option("--group", metavar="COL", help="Rows with equal values stay together in folds and test part.")
@click.option("--drop", multiple=True, metavar="COL[,COL]", help="Columns that are no features.")
@text_options
@click.option("--out", type=click.Path(path_type=Path), default="gar-report", show_default=True, help="Folder of the report.")
@training_options
def compare(
    data: str | None,
    targets: tuple[str, ...],
    group: str | None,
    drop: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    out: Path,
    **rest: Any,
) -> None:
    """Compare losses on a table: which one predicts best, by how much, and is it luck?

    DATA is a CSV, Parquet, ARFF, Excel or NPZ file, or the name of a data set ('gar data list'). Without it, the diabetes table of
    scikit-learn and the paper's two curves are used.

    A fifth of the rows is put aside for the test. The rest is cut into folds, and every loss is trained with its whole grid on
    each.
    """
    if data is None and (targets or group or drop):
        raise click.UsageError("--target, --group and --drop are about the columns of DATA; name a file.")
    form = {"delimiter": delimiter, "encoding": encoding}
    if data is None and any(form.values()):
        raise click.UsageError("--delimiter and --encoding are about the text of DATA; name a file.")
    options = _options(rest)
    from gar.app.compare import DEFAULT, problem_named

    problems = [problem_named(name) for name in DEFAULT] if data is None else [_problem(data, targets, group, drop, form)]
    _run(problems, options, out, rest)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default="gar-demo", show_default=True, help="Folder of the report.")
@training_options
def demo(out: Path, **rest: Any) -> None:
    """Compare on what is built in: diabetes and the paper's two curves, three to four minutes on two cores."""
    options = _options(rest)
    from gar.app.compare import DEFAULT, problem_named

    _run([problem_named(name) for name in DEFAULT], options, out, rest)


def _options(given: dict[str, Any]) -> "Options":
    from gar.app.compare import Options

    run = ("workers", "backend", "address", "time_limit", "quiet", "parameters")
    chosen = {name: value for name, value in given.items() if name not in run}
    return Options(parameters=dict(given["parameters"]), **chosen)


def _problem(
    data: str, targets: tuple[str, ...], group: str | None, drop: tuple[str, ...], form: dict[str, str | None]
) -> "Source | str":
    """A file, if there is one of this name, or else a data set."""
    from gar.app.compare import CURVES, problem_named, source_of_data_set, source_of_file
    from gar.app.compare.source import data_set_names

    if Path(data).exists() or data not in (*CURVES, *data_set_names()):
        return source_of_file(data, targets=targets, group=group, drop=drop, **form)
    if targets or drop:
        raise click.UsageError(f"{data} is a data set, whose columns are known; leave out --target and --drop.")
    if any(form.values()):
        raise click.UsageError(f"{data} is a data set, whose files are known; leave out --delimiter and --encoding.")
    return problem_named(data) if group is None else source_of_data_set(data, group=group)


def _run(problems: "list[Source | str]", options: "Options", out: Path, given: dict[str, Any]) -> None:
    from gar.app.compare import compare_and_report
    from gar.app.report.terminal import print_results

    if out.exists() and not out.is_dir():
        raise click.BadParameter(f"{str(out)!r} is a file; name a folder.", param_hint="--out")
    try:
        report = compare_and_report(
            problems,
            options,
            out=out,
            command=shlex.join(["gar", *sys.argv[1:]]),
            workers=given["workers"],
            backend=given["backend"],
            address=given["address"],
            time_limit=given["time_limit"],
            progress=not given["quiet"],
        )
    except KeyboardInterrupt:
        click.echo(f"Interrupted. What is finished is kept in {out / 'records'}; the same command goes on from there.", err=True)
        raise
    print_results(report.results, None)
    if report.is_late:
        click.echo("Time was up: the report holds what was finished. The same command goes on where it was.")
    click.echo(f"Report: {report.page}")
    if report.model is not None:
        click.echo(f"Model:  {report.model} (use it: gar predict {shlex.quote(str(report.model))} DATA)")
