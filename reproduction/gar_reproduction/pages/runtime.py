"""The page of running times."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gar.app.report.style import NOTHING
from gar.registry import LOSSES, PAPER_LOSSES
from gar_reproduction import published
from gar_reproduction.names import EXPERIMENTS, TASKS
from gar_reproduction.pages.blocks import NOT_RUN, Block, Heading, PageTable, row
from gar_reproduction.pages.figures import runtime_figure
from gar_reproduction.published import with_sd
from gar_reproduction.timing import TASKS as TIMED
from gar_reproduction.timing import read_times

Times = Mapping[tuple[str, str], Mapping[str, Any]]
_EXPLANATION = (
    "Milliseconds per epoch. 'Whole' is a training epoch of one model with plain PyTorch in one thread, without evaluation; "
    "'loss' is the loss and its backward pass. 'Stack' is an epoch of one model of 45 that train as one program, evaluation "
    "included. The paper's were measured on another machine, with a data loader that starts a process in every epoch: "
    "compare ratios."
)


def runtime_blocks(records: Path) -> list[Block]:
    """Return the content of the page."""
    times = read_times(records)
    tasks = [task for task in TIMED if any(key[0] == task for key in times)]
    if not tasks:
        return [EXPERIMENTS["runtime"], "Not run."]
    blocks: list[Block] = [EXPERIMENTS["runtime"], _EXPLANATION, _machines(times), runtime_figure(times, tasks)]
    for task in tasks:
        blocks += [Heading(TASKS[task]), _table(times, task)]
    return blocks


def _machines(times: Times) -> str:
    """Describe the machines of all records; mostly it is one."""
    machines = [record["machine"] for record in times.values()]
    shown = [
        f"{one['processor']}, {one['cores']} cores, {one['system']}, Python {one['python']}, torch {one['torch']}"
        for one in machines
    ]
    loads = [one["load"] for one in machines if one["load"] is not None]
    load = f" Load while measuring: {min(loads)} to {max(loads)}." if loads else ""
    return f"Measured on: {'; '.join(dict.fromkeys(shown))}.{load}"


def _table(times: Times, task: str) -> PageTable:
    columns = ["Method", "whole, mean(sd)", "median", "paper's", "loss, mean(sd)", "median", "paper's", "stack", "epochs"]
    rows = []
    for method in PAPER_LOSSES:
        record, entries = times.get((task, method)), []
        for kind in ("all", "loss"):
            score = published.running_times().get((task, method, kind))
            entries += [NOT_RUN, NOT_RUN] if record is None else _milliseconds(record[kind])
            entries.append(NOTHING if score is None else f"{1e3 * score.mean:.0f}({1e3 * score.sd:.0f})")
        entries += [NOT_RUN, NOT_RUN] if record is None else [f"{1e3 * record['stack']:.3f}", str(record["epochs"])]
        rows.append(row(LOSSES[method].title, *entries))
    return PageTable(columns, rows)


def _milliseconds(one: Mapping[str, float]) -> list[str]:
    return [with_sd(1e3 * one["mean"], 1e3 * one["sd"]), f"{1e3 * one['median']:.3f}"]
