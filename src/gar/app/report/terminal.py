"""Results as tables in a terminal; plain text where the output is not one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gar.app.report.results import Method, Problem, Results
from gar.app.report.style import CHAMPION, METRICS, number, percent, printable, probability
from gar.app.report.summary import (
    Duel,
    baseline_of,
    best_rival,
    champions_of,
    duel,
    headline,
    metrics_of,
    places_of,
    ranking,
    score,
    verdict,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

_ONE_LINE = 104
"""Columns from which mean and deviation stand in one line."""
_LONGER = 10
"""Columns that names of families need."""


def print_results(results: Results, console: Console | None = None) -> None:
    """A table for every problem: mean (sd) over folds of every method, then what GAR gains and how sure that is.

    Args:
        results: what a comparison found.
        console: where to print; None is the standard output.
    """
    out = console or Console()
    for problem in results.problems:
        longer = _LONGER if any(method.family for method in problem.methods) else 0
        out.print(_table(problem, wide=out.width >= _ONE_LINE + longer))
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
        style = "bold" if method.loss == CHAMPION else ""
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
    """Rows below the methods: GAR of each family against the baseline of its own, and against the best rival by each metric."""
    for champion in champions_of(problem):
        baseline, best = baseline_of(problem, champion), [best_rival(problem, metric) for metric in metrics]
        for name, rivals in (("MAE", [baseline] * len(metrics)), ("best", best)):
            if any(rival is not None for rival in rivals):
                pairs = zip(metrics, rivals, strict=True)
                duels = [None if rival is None else duel(problem, metric, rival, champion) for metric, rival in pairs]
                _add_duel(table, f"{printable(champion.title, 16)} over {name}", duels, named=name == "best", wide=wide)


def _add_duel(table: Table, title: str, duels: list[Duel | None], *, named: bool, wide: bool) -> None:
    table.add_section()
    _add_row(table, title, duels, lambda one: percent(one.gain))
    if named:
        _add_row(table, "  which is", duels, lambda one: _rival(one, wide=wide))
    _add_row(table, "  p t-test", duels, lambda one: probability(one.p))
    _add_row(table, "  p corrected", duels, lambda one: probability(one.p_corrected))


def _rival(one: Duel, *, wide: bool) -> str:
    """The name of a rival, in two lines where columns are narrow."""
    name = printable(one.rival.title, 16)
    return name if wide else "\n".join(printable(part, 9) for part in name.replace("-", "- ").split(" ", 1))


def _add_row(table: Table, name: str, duels: list[Duel | None], shown: Callable[[Duel], str]) -> None:
    table.add_row(name, *(Text("" if one is None else shown(one), justify="right") for one in duels), "")
