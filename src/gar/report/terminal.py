"""Results as tables in a terminal; plain text where the output is not one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gar.report.results import Method, Problem, Results
from gar.report.style import BASELINE, CHAMPION, METRICS, number, percent, printable, probability
from gar.report.summary import Duel, best_rival, duel, headline, method_of, metrics_of, places_of, ranking, score, verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

_ONE_LINE = 104
"""Columns from which mean and deviation stand in one line."""


def print_results(results: Results, console: Console | None = None) -> None:
    """A table for every problem: mean (sd) over folds of every method, then what GAR gains and how sure that is.

    Args:
        results: what a comparison found.
        console: where to print; None is the standard output.
    """
    out = console or Console()
    for problem in results.problems:
        out.print(_table(problem, wide=out.width >= _ONE_LINE))
        out.print(Text(verdict(problem), style="bold"))
        for note in problem.notes:
            out.print(Text(f"- {printable(note)}"))
        out.print()
    if len(results.problems) > 1:
        out.print(Text(headline(results), style="bold"))


def _table(problem: Problem, *, wide: bool) -> Table:
    metrics = metrics_of(problem)
    title = f"{printable(problem.title)}: test rows, mean (sd) of folds; * is best"
    table = Table(title=Text(title, style="bold"), title_justify="left", box=HORIZONTALS, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True, overflow="ellipsis", min_width=14)
    for metric in metrics:
        name, larger = METRICS[metric]
        table.add_column(f"{name} {'↑' if larger else '↓'}", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    best = {metric: ranking(problem.methods, metric)[:1] for metric in metrics}
    for method in problem.methods:
        style = "bold" if method.name == CHAMPION else ""
        cells = [_cell(problem, method, metric, best=method in best[metric], wide=wide) for metric in metrics]
        table.add_row(Text(printable(method.title, 24), style=style), *cells, Text(number(method.seconds, 1)))
    _add_duels(table, problem, metrics, wide=wide)
    return table


def _cell(problem: Problem, method: Method, metric: str, *, best: bool, wide: bool) -> "RenderableType":
    one, places = score(method, metric), places_of(problem, metric)
    between = " " if wide else "\n"
    text = f"{'*' if best else ''}{number(one.mean, places)}{between}({number(one.sd, places)})"
    return Text(text, style="bold green" if best else "", justify="right")


def _add_duels(table: Table, problem: Problem, metrics: list[str], *, wide: bool) -> None:
    """Rows below the methods: the champion against the baseline, and against the best of the others by each metric."""
    if method_of(problem, CHAMPION) is None:
        return
    baseline = method_of(problem, BASELINE)
    sides: list[tuple[str, Callable[[str], Method | None]]] = [
        ("MAE", lambda _: baseline),
        ("best", lambda metric: best_rival(problem, metric)),
    ]
    for name, side in sides:
        rivals = [side(metric) for metric in metrics]
        if all(rival is None for rival in rivals):
            continue
        duels = [None if rival is None else duel(problem, metric, rival) for metric, rival in zip(metrics, rivals, strict=True)]
        table.add_section()
        _add_row(table, f"GAR over {name}", duels, lambda one: percent(one.gain))
        if name == "best":
            _add_row(table, "  which is", duels, lambda one: _rival(one, wide=wide))
        _add_row(table, "  p t-test", duels, lambda one: probability(one.p))
        _add_row(table, "  p corrected", duels, lambda one: probability(one.p_corrected))


def _rival(one: Duel, *, wide: bool) -> str:
    """The name of a rival, in two lines where columns are narrow."""
    name = printable(one.rival.title, 16)
    return name if wide else "\n".join(printable(part, 9) for part in name.replace("-", "- ").split(" ", 1))


def _add_row(table: Table, name: str, duels: list[Duel | None], shown: Callable[[Duel], str]) -> None:
    table.add_row(name, *(Text("" if one is None else shown(one), justify="right") for one in duels), "")
