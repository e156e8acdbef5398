"""``gar reproduce``: the paper's experiments, and pages of their records."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gar.app.commands.values import CommaList, backend_options
from gar_reproduction.names import EXPERIMENTS, METHODS, TASKS

if TYPE_CHECKING:
    from gar_reproduction.running import Session, State
    from gar_reproduction.studies import Study
    from gar_reproduction.unit import Unit

F = TypeVar("F", bound=Callable[..., Any])
_RECORDS = click.option(
    "--records",
    type=click.Path(path_type=Path, file_okay=False),
    default="records",
    show_default=True,
    help="Folder of the small files that results are kept in.",
)


@click.group()
def reproduce() -> None:
    """Run the paper's experiments, and hold our numbers against the published ones.

    What is finished is kept in small records; a command that is interrupted goes on where it was. 'all' runs everything.
    """


def _running_options(command: F) -> F:
    decorators = [
        click.option("--tasks", type=CommaList(str, "tasks", TASKS), help="Only these [default: all]."),
        click.option("--methods", type=CommaList(str, "methods", METHODS), help="Only these [default: all]."),
        click.option("--workers", type=int, default=-1, show_default=True, help="Processes; -1 is one per core."),
        backend_options,
        click.option(
            "--budget", type=click.FloatRange(min=0, min_open=True), metavar="MIN", help="Minutes; then stop, to go on later."
        ),
        _RECORDS,
        click.option(
            "--scratch",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for unfinished work [default: in the user's cache folder].",
        ),
        click.option("--dry-run", is_flag=True, help="Show what would be run, and about how long it takes."),
        click.option("--quiet", is_flag=True, help="No progress line."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def _add(name: str, summary: str) -> None:
    """A command for an experiment, or for all."""

    @reproduce.command(name, help=summary, short_help=summary)
    @_running_options
    def run(**given: Any) -> None:
        _run(list(EXPERIMENTS) if name == "all" else [name], **given)


for _name, _summary in {**EXPERIMENTS, "all": "All of these, one after another."}.items():
    _add(_name, _summary)


def _run(
    experiments: Sequence[str],
    *,
    tasks: tuple[str, ...] | None,
    methods: tuple[str, ...] | None,
    workers: int,
    backend: str,
    address: str | None,
    budget: float | None,
    records: Path,
    scratch: Path | None,
    dry_run: bool,
    quiet: bool,
) -> None:
    from gar.search import parallel_backend
    from gar_reproduction.running import Session, default_scratch

    deadline = None if budget is None else time.monotonic() + 60 * budget
    session = Session(records=records, scratch=scratch or default_scratch(), workers=workers, progress=not quiet, deadline=deadline)
    with nullcontext() if dry_run else parallel_backend(backend, address=address, workers=workers):
        is_done = all(_run_experiment(name, tasks or (), methods or (), session, experiments, dry_run) for name in experiments)
    if not is_done:
        click.echo("Time was up. What is finished is kept; the same command goes on where it was.")
    elif not dry_run:
        click.echo(f"Records: {records} (make pages of them: gar reproduce report --records {records})")


def _run_experiment(
    name: str, tasks: tuple[str, ...], methods: tuple[str, ...], session: "Session", among: Sequence[str], dry_run: bool
) -> bool:
    """False if time was up before it was done."""
    from gar_reproduction.experiments import UNIT_EXPERIMENTS, units

    strict = len(among) == 1  # 'all' passes over a task that an experiment does not have
    if name not in UNIT_EXPERIMENTS:
        return _run_studies(name, tasks, methods, session, dry_run=dry_run, strict=strict)
    return _run_units(name, units(name, tasks=tasks, methods=methods, strict=strict), session, dry_run=dry_run)


def _run_units(experiment: str, found: Sequence["Unit"], session: "Session", *, dry_run: bool) -> bool:
    """False if time was up before all were done."""
    from gar_reproduction.running import run_units

    if dry_run:
        _show_plan(found, session)
        return True
    is_done = run_units(found, session, _tell)
    _show_scores(experiment, [unit for unit in found if unit.keeps != "curve"], session.records)
    return is_done


def _show_scores(experiment: str, found: Sequence["Unit"], records: Path) -> None:
    """What was run, beside the paper's numbers where it has them."""
    from gar_reproduction.pages.blocks import plain
    from gar_reproduction.pages.numbers import read_scores
    from gar_reproduction.pages.tables import legend, score_table

    scores = read_scores(records, experiment, found)
    for task in scores.run_tasks:
        click.echo(f"\n{TASKS[task]}\n{plain(score_table(scores, task))}")
    if scores.run_tasks:
        click.echo(f"\n{legend(scores)}")


def _tell(unit: "Unit", state: "State") -> None:
    click.echo(f"{unit.name:<44} {state}")


def _show_plan(found: Sequence["Unit"], session: "Session") -> None:
    """Every unit with its runs, operations and estimated time, and what is to be done in all."""
    import joblib

    from gar_reproduction.digest import read_digest
    from gar_reproduction.estimate import seconds
    from gar_reproduction.unit import flops

    workers, left = joblib.effective_n_jobs(session.workers), 0.0
    click.echo(f"{'unit':<44} {'runs':>6} {'TFLOP':>9} {'minutes':>9}  state")
    for unit in found:
        data = unit.load()
        is_done = read_digest(session.records, unit, key=unit.key(data)) is not None
        minutes = seconds(unit, data, workers=workers) / 60
        left += 0.0 if is_done else minutes
        state = "done" if is_done else "to do"
        click.echo(f"{unit.name:<44} {len(unit.models):>6} {flops(unit, data) / 1e12:>9.2f} {minutes:>9.1f}  {state}")
    click.echo(f"To do: about {left:.0f} minutes with {workers} workers, by a short measurement of this machine as it is now.")


def _studies(experiment: str) -> "Callable[..., list[Study]]":
    from gar_reproduction.agedb import agedb_studies
    from gar_reproduction.symbolic import symbolic_studies
    from gar_reproduction.timing import timings

    return {"runtime": timings, "symbolic": symbolic_studies, "agedb": agedb_studies}[experiment]


def _run_studies(
    experiment: str, tasks: tuple[str, ...], methods: tuple[str, ...], session: "Session", *, dry_run: bool, strict: bool
) -> bool:
    """False if time was up before all were done."""
    from gar_reproduction.experiments import check_known

    found = _studies(experiment)
    if strict:
        check_known(tasks, {study.task for study in found()}, f"task of {experiment}")
        check_known(methods, METHODS, f"method of {experiment}")
    for study in found(tasks, methods):
        state = "found" if study.read(session.records) is not None else "to do" if dry_run else ""
        if not state and not strict and study.lacking() is not None:
            state = "passed over: this machine lacks something; run this experiment alone to see what"
        if not state:
            if session.is_late:
                return False
            study.run(session.records)
            state = "computed"
        click.echo(f"{study.name:<44} {state}")
    return True


@reproduce.command("list")
@_RECORDS
def list_records(records: Path) -> None:
    """What there is to run, and how much of it has records."""
    from gar_reproduction.experiments import UNIT_EXPERIMENTS, units
    from gar_reproduction.scores import read_digests

    for name, summary in EXPERIMENTS.items():
        if name in UNIT_EXPERIMENTS:
            found = units(name)
            done, total = len(read_digests(records, found)), len(found)
        else:
            studies = _studies(name)()
            done, total = sum(study.read(records) is not None for study in studies), len(studies)
        click.echo(f"{name:<18} {done:>3} of {total:<3} {summary}")


@reproduce.command()
@_RECORDS
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="docs/results",
    show_default=True,
    help="Folder of the pages.",
)
def report(records: Path, out: Path) -> None:
    """Pages of all records: Markdown, one page of HTML, and figures."""
    if not records.is_dir():
        raise click.BadParameter(f"{str(records)!r} is no folder; run an experiment first.", param_hint="--records")
    from gar_reproduction.pages.writing import write_pages

    files = write_pages(records, out)
    click.echo(f"{len(files)} files in {out}; begin with {out / 'index.md'} or {out / 'index.html'}")
