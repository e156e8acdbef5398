"""Results as tables in a terminal, or as plain text where the output is not a terminal."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

import gar.app.report.summary as summary
from gar.app.report.formatting import number, percent, printable, probability
from gar.app.report.results import Method, Problem, Results
from gar.registry import BASELINE, LOSSES, METHOD_OF_INTEREST, METRICS, NETWORKS

_ONE_LINE = 104
"""Width from which mean and standard deviation fit in one line."""
_LONGER = 10
"""Additional width for the names of families."""


def print_results(results: Results, console: Console | None = None) -> None:
    """Print a table for every problem: mean (sd) over folds of every method, then the gains of GAR with their p-values.

    Args:
        results: of a comparison.
        console: where to print; None is the standard output.
    """
    out = console or Console()
    for problem in results.problems:
        longer = _LONGER if any(method.family != NETWORKS for method in problem.methods) else 0
        out.print(_table(problem, wide=out.width >= _ONE_LINE + longer))
        out.print(Text(summary.verdict(problem), style="bold"))
        for note in problem.notes:
            out.print(Text(f"- {printable(note)}"))
        out.print()
    if len(results.problems) > 1:
        out.print(Text(summary.headline(results), style="bold"))


def _table(problem: Problem, *, wide: bool) -> Table:
    metrics = summary.metrics_of(problem)
    title = f"{printable(problem.title)}: test rows, mean (sd) of folds; * is best"
    table = Table(title=Text(title, style="bold"), title_justify="left", box=HORIZONTALS, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", no_wrap=True, overflow="ellipsis", min_width=14)
    for metric in metrics:
        arrow = "↑" if METRICS[metric].larger_is_better else "↓"
        table.add_column(f"{METRICS[metric].title} {arrow}", justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    best = {metric: summary.ranking(problem.methods, metric)[:1] for metric in metrics}
    for method in problem.methods:
        style = "bold" if method.loss == METHOD_OF_INTEREST else ""
        cells = [_cell(problem, method, metric, best=method in best[metric], wide=wide) for metric in metrics]
        table.add_row(Text(printable(method.title, 24), style=style), *cells, Text(number(method.seconds, 1)))
    _add_comparisons(table, problem, metrics, wide=wide)
    return table


def _cell(problem: Problem, method: Method, metric: str, *, best: bool, wide: bool) -> Text:
    text = ("*" if best else "") + (" " if wide else "\n").join(summary.score_texts(problem, method, metric))
    return Text(text, style="bold green" if best else "", justify="right")


def _add_comparisons(table: Table, problem: Problem, metrics: Sequence[str], *, wide: bool) -> None:
    """Add rows below the methods: GAR of each family against the baseline of its own, and against the best rival by each metric."""
    best = [summary.best_rival(problem, metric) for metric in metrics]
    for method in summary.methods_of_interest(problem):
        for name, rivals in ((LOSSES[BASELINE].title, [summary.baseline_of(problem, method)] * len(metrics)), ("best", best)):
            if not any(rivals):
                continue
            pairs = zip(metrics, rivals, strict=True)
            compared = [rival and summary.compare_methods(problem, metric, rival, method) for metric, rival in pairs]
            table.add_section()
            _add_row(table, f"{printable(method.title, 16)} over {name}", compared, lambda one: percent(one.gain))
            if rivals is best:
                _add_row(table, "  which is", rivals, lambda rival: _rival_name(rival, wide=wide))
            _add_row(table, "  p t-test", compared, lambda one: probability(one.p))
            _add_row(table, "  p corrected", compared, lambda one: probability(one.p_corrected))


def _add_row(table: Table, name: str, values: Sequence[Any], shown: Callable[[Any], str]) -> None:
    table.add_row(name, *(Text("" if one is None else shown(one), justify="right") for one in values), "")


def _rival_name(rival: Method, *, wide: bool) -> str:
    """Return the title of a rival, in two lines where columns are narrow."""
    name = printable(rival.title, 16)
    return name if wide else "\n".join(printable(part, 9) for part in name.replace("-", "- ").split(" ", 1))
