"""``gar reproduce``: the paper's experiments, and pages of their records."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import CommaList, backend_options
from gar.registry import PAPER_LOSSES
from gar_reproduction.folders import WHERE_RECORDS_ARE, clone_records, records_folder, scratch_folder
from gar_reproduction.names import EXPERIMENTS, TASKS

if TYPE_CHECKING:
    from gar.search import RunContext
    from gar_reproduction.cell import Cell
    from gar_reproduction.studies import Study

F = TypeVar("F", bound=Callable[..., Any])
_FOLDER = click.Path(path_type=Path, file_okay=False)


def _folder_option(name: str, default: Callable[[], Path | None], where: str, text: str) -> Callable[[F], F]:
    return click.option(name, type=_FOLDER, default=default, show_default=where, help=text)


def _records_option(default: Callable[[], Path | None]) -> Callable[[F], F]:
    text = "Folder of the records of finished experiment cells."
    return _folder_option("--records", default, "reproduction/records of the clone", text)


_RECORDS = _records_option(records_folder)


@click.group()
def reproduce() -> None:
    """Run the paper's experiments, and compare our scores with the published ones.

    Each finished experiment cell (one method on one task) has a small record; an interrupted command continues where it was.
    'all' runs everything.
    """


def _running_options(command: F) -> F:
    decorators = [
        click.option("--tasks", type=CommaList(str, "tasks", TASKS), help="Only these [default: all]."),
        click.option("--methods", type=CommaList(str, "methods", PAPER_LOSSES), help="Only these [default: all]."),
        click.option("--workers", type=int, default=-1, show_default=True, help="Processes; -1 is one per core."),
        backend_options,
        click.option("--budget", type=click.FloatRange(min=0, min_open=True), metavar="MIN", help="Stop after this many minutes."),
        _RECORDS,
        _folder_option("--scratch", scratch_folder, "in the user's cache folder", "Folder of unfinished work."),
        click.option("--dry-run", is_flag=True, help="Show what would be run, and about how long it takes."),
        click.option("--quiet", is_flag=True, help="No progress line."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def _add(name: str, summary: str) -> None:
    """Add the command of an experiment, or of all."""

    @reproduce.command(name, help=summary, short_help=summary)
    @_running_options
    def run(**given: Any) -> None:
        _run(list(EXPERIMENTS) if name == "all" else [name], given)


for _name, _summary in {**EXPERIMENTS, "all": "All of these, one after another."}.items():
    _add(_name, _summary)


@dataclass(frozen=True)
class _Request:
    """The options of a command."""

    records: Path
    context: "RunContext"
    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    is_dry: bool
    is_strict: bool
    """Whether an unknown task or method is an error; 'all' ignores what an experiment does not have."""


def _run(experiments: Sequence[str], given: Mapping[str, Any]) -> None:
    from gar.search import RunContext, parallel_backend
    from gar_reproduction.experiments import CELL_EXPERIMENTS

    records, workers, budget, is_dry = (given[name] for name in ("records", "workers", "budget", "dry_run"))
    deadline = None if budget is None else time.monotonic() + 60 * budget
    context = RunContext(records=given["scratch"], workers=workers, progress=not given["quiet"], deadline=deadline)
    request = _Request(records, context, given["tasks"] or (), given["methods"] or (), is_dry, is_strict=len(experiments) == 1)
    with nullcontext() if is_dry else parallel_backend(given["backend"], address=given["address"], workers=workers):
        is_done = all((_run_cells if name in CELL_EXPERIMENTS else _run_studies)(name, request) for name in experiments)
    if not is_done:
        click.echo("The time is up. What is finished is recorded; the same command continues from there.")
    elif not is_dry:
        click.echo(f"Records: {records} (render their pages: gar reproduce report --records {records})")


def _run_cells(experiment: str, request: _Request) -> bool:
    """Return False if the time was up before all cells were done."""
    from gar_reproduction.execution import run_cells
    from gar_reproduction.experiments import cells

    found = cells(experiment, tasks=request.tasks, methods=request.methods, strict=request.is_strict)
    if request.is_dry:
        _show_plan(found, request)
        return True
    is_done = run_cells(found, request.records, request.context, lambda cell, state: click.echo(f"{cell.name:<44} {state}"))
    _show_scores(experiment, [cell for cell in found if cell.recorded != "curve"], request.records)
    return is_done


def _show_scores(experiment: str, found: Sequence["Cell"], records: Path) -> None:
    """Show the scores of what was run, beside the paper's where it has any."""
    from gar_reproduction.pages.blocks import plain
    from gar_reproduction.pages.score_tables import legend, score_table
    from gar_reproduction.scores import read_scores

    scores = read_scores(records, experiment, found)
    for task in scores.run_tasks:
        click.echo(f"\n{TASKS[task]}\n{plain(score_table(scores, task))}")
    if scores.run_tasks:
        click.echo(f"\n{legend(scores)}")


def _show_plan(found: Sequence["Cell"], request: _Request) -> None:
    """Show every cell with its models, operations and estimated time, and the time that is left in all."""
    import joblib

    from gar_reproduction.cell import estimated_seconds, flops
    from gar_reproduction.summary import read_summary

    workers, left = joblib.effective_n_jobs(request.context.workers), 0.0
    click.echo(f"{'experiment cell':<44} {'models':>6} {'TFLOP':>9} {'minutes':>9}  state")
    for cell in found:
        data = cell.load()
        is_done = read_summary(request.records, cell, key=cell.key(data)) is not None
        minutes = estimated_seconds(cell, data, workers=workers) / 60
        left += 0.0 if is_done else minutes
        work = flops(data, cell.models, cell.settings) / 1e12
        click.echo(f"{cell.name:<44} {len(cell.models):>6} {work:>9.2f} {minutes:>9.1f}  {'done' if is_done else 'to do'}")
    click.echo(f"To do: about {left:.0f} minutes with {workers} workers, by a short measurement of this machine as it is now.")


def _studies(experiment: str) -> "Callable[..., list[Study]]":
    from gar_reproduction.agedb import agedb_studies
    from gar_reproduction.symbolic import symbolic_studies
    from gar_reproduction.timing import timings

    return {"runtime": timings, "symbolic": symbolic_studies, "agedb": agedb_studies}[experiment]


def _run_studies(experiment: str, request: _Request) -> bool:
    """Return False if the time was up before all studies were done."""
    from gar_reproduction.experiments import check_known

    found = _studies(experiment)
    if request.is_strict:
        check_known(request.tasks, {study.task for study in found()}, f"task of {experiment}")
        check_known(request.methods, PAPER_LOSSES, f"method of {experiment}")
    for study in found(request.tasks, request.methods):
        state = "found" if study.read(request.records) is not None else "to do" if request.is_dry else ""
        if not state and not request.is_strict and study.missing() is not None:
            state = "skipped: this machine lacks something; run this experiment alone to see what"
        if not state:
            if request.context.is_late():
                return False
            study.run(request.records)
            state = "computed"
        click.echo(f"{study.name:<44} {state}")
    return True


@reproduce.command("list")
@_records_option(clone_records)
def list_records(records: Path | None) -> None:
    """List the experiments, how much of each has records, and where these are."""
    for name, summary in EXPERIMENTS.items():
        done, total = _count(name, records)
        click.echo(f"{name:<18} {'?' if done is None else done:>3} of {total:<3} {summary}")
    click.echo(f"Records: {records}" if records is not None else f"No records were found: {WHERE_RECORDS_ARE}")


def _count(experiment: str, records: Path | None) -> tuple[int | None, int]:
    """Return how many parts of an experiment have records, None if there is no folder of them, and how many there are."""
    from gar_reproduction.experiments import CELL_EXPERIMENTS, cells
    from gar_reproduction.summary import read_summaries

    if experiment in CELL_EXPERIMENTS:
        found = cells(experiment)
        return None if records is None else len(read_summaries(records, found)), len(found)
    studies = _studies(experiment)()
    return None if records is None else sum(study.read(records) is not None for study in studies), len(studies)


@reproduce.command()
@_RECORDS
@click.option("--out", type=_FOLDER, default="docs/results", show_default=True, help="Folder of the pages.")
def report(records: Path, out: Path) -> None:
    """Render all records as pages: Markdown and figures."""
    if not records.is_dir():
        raise click.BadParameter(f"{str(records)!r} is no folder; run an experiment first.", param_hint="--records")
    from gar_reproduction.pages.pages import write_pages

    files = write_pages(records, out)
    click.echo(f"{len(files)} files in {out}; begin with {out / 'index.md'}")
