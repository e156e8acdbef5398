"""Running times as a page shows them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gar.app.report.formatting import NOTHING
from gar_reproduction import published
from gar_reproduction.names import METHODS, TASKS
from gar_reproduction.pages.blocks import NOT_RUN, Block, Heading, Table, row
from gar_reproduction.pages.figures import runtime_figure
from gar_reproduction.published import with_sd
from gar_reproduction.timing import TASKS as TIMED
from gar_reproduction.timing import timings

Times = Mapping[tuple[str, str], Mapping[str, Any]]


def read_times(records: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """All records by task and method."""
    found = {(study.task, study.variant): study.read(records) for study in timings()}
    return {key: record for key, record in found.items() if record is not None}


def timing_blocks(records: Path) -> list[Block]:
    times = read_times(records)
    tasks = [task for task in TIMED if any(key[0] == task for key in times)]
    if not tasks:
        return ["Not run."]
    blocks: list[Block] = [
        "Milliseconds per epoch. 'Whole' is a training epoch of one model with plain PyTorch in one thread, without evaluation; "
        "'loss' is the loss and its backward pass. 'Stack' is an epoch of one model of 45 that train as one program, evaluation "
        "included. The paper's were measured on another machine, with a data loader that starts a process in every epoch: "
        "compare ratios.",
        _machines(times),
        runtime_figure(times, tasks),
    ]
    for task in tasks:
        blocks += [Heading(TASKS[task]), _table(times, task)]
    return blocks


def _machines(times: Times) -> str:
    """The machines of all records; mostly it is one."""
    seen = []
    for record in times.values():
        one = record["machine"]
        text = f"{one['processor']}, {one['cores']} cores, {one['system']}, Python {one['python']}, torch {one['torch']}"
        seen += [] if text in seen else [text]
    loads = [record["machine"]["load"] for record in times.values() if record["machine"]["load"] is not None]
    load = f" Load while measuring: {min(loads)} to {max(loads)}." if loads else ""
    return f"Measured on: {'; '.join(seen)}.{load}"


def _table(times: Times, task: str) -> Table:
    paper = published.running_times()
    columns = ["Method", "whole, mean(sd)", "median", "paper's", "loss, mean(sd)", "median", "paper's", "stack", "epochs"]
    rows = []
    for method, title in METHODS.items():
        theirs = {kind: paper.get((task, method, kind)) for kind in ("all", "loss")}
        cells: list[str] = []
        record = times.get((task, method))
        for kind in ("all", "loss"):
            one, score = None if record is None else record[kind], theirs[kind]
            cells += (
                [NOT_RUN, NOT_RUN] if one is None else [with_sd(1e3 * one["mean"], 1e3 * one["sd"]), f"{1e3 * one['median']:.3f}"]
            )
            cells.append(NOTHING if score is None else f"{1e3 * score.mean:.0f}({1e3 * score.sd:.0f})")
        cells += [NOT_RUN, NOT_RUN] if record is None else [f"{1e3 * record['stack']:.3f}", str(record["epochs"])]
        rows.append(row(title, *cells))
    return Table(columns, rows)
