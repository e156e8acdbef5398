"""Results as tables in a terminal, or as plain text where the output is not a terminal."""

from collections.abc import Sequence

from rich.box import HORIZONTALS
from rich.console import Console
from rich.table import Table
from rich.text import Text

import gar.app.report.score_tables as score_tables
import gar.app.report.summary as summary
from gar.app.report.formatting import NOTHING, number, printable, probability
from gar.app.report.results import Method, Problem, Results
from gar.registry import METHOD_OF_INTEREST, METRICS

_NAME_WIDTH = 14
"""Least width of the column of methods."""

_LESS_IMPORTANT = ("spearman", "rmse", "r2", "pearson")
"""Metrics that are left out first where the terminal is too narrow for all numbers."""

_SHORT_TITLES = ("Pearson ↑", "Spearman ↑", "CCC ↑", "NSE ↑", "KGE ↑", "all rows")
"""Headings of the metrics of agreement, the last of which is Pearson of all rows."""

Cells = list[list[Text]]


def print_results(results: Results, console: Console | None = None) -> None:
    """Print what was found on every problem: the verdict, what is saved, warnings, the scores, and the gains of GAR.

    Args:
        results: of a comparison.
        console: where to print; None is the standard output.
    """
    out = console or Console()
    for problem in results.problems:
        for warning in problem.warnings:
            out.print(Text(f"Warning: {printable(warning)}", style="yellow"))
        out.print(_scores(problem, out.width))
        if problem.pairs_within is not None:
            out.print(_within(problem))
        if (targets := score_tables.target_table(problem)) is not None:
            out.print(_by_target(targets))
        if (gains := _gains(problem)) is not None:
            out.print(gains)
        out.print(Text(summary.verdict(problem), style="bold"))
        for text in (summary.saved_text(problem), summary.next_step(problem)):
            if text:
                out.print(Text(text))
        for note in problem.notes:
            out.print(Text(f"- {printable(note)}"))
        out.print()
    if len(results.problems) > 1:
        out.print(Text(summary.headline(results), style="bold"))


def _scores(problem: Problem, width: int) -> Table:
    """Return the scores in as many columns as fit: mean and standard deviation in one line if that fits, no number ever cut."""
    metrics = summary.metrics_of(problem)
    choices = [(metrics, " "), (metrics, "\n")]
    for name in _LESS_IMPORTANT:
        metrics = [metric for metric in metrics if metric != name or metric == problem.selected_by]
        choices.append((metrics, "\n"))
    tables = [_score_table(problem, metrics, between) for metrics, between in choices]
    return next((table for table, needed in tables if needed <= width), tables[-1][0])


def _score_table(problem: Problem, metrics: Sequence[str], between: str) -> tuple[Table, int]:
    """Return the table of scores, and the width that it needs."""
    title = f"{printable(problem.title)}: test rows, mean (sd) of {'seeds' if problem.truth else 'folds'}; * is best"
    if problem.pairs_within is not None:
        title += f"; Pearson, Spearman within {printable(problem.pairs_within, 24)}"
    best = {metric: summary.ranking(problem.methods, metric)[:1] for metric in metrics}
    headings = [f"{METRICS[metric].title} {'↑' if METRICS[metric].larger_is_better else '↓'}" for metric in metrics]
    table, needed = _table(title, "method", [*headings, "seconds"]), _NAME_WIDTH + 1
    methods = [*problem.methods, *problem.references]
    rows = [
        [*(_cell(problem, method, metric, method in best[metric], between) for metric in metrics), Text(number(method.seconds, 1))]
        for method in methods
    ]
    for method, cells in zip(methods, rows, strict=True):
        style = "bold" if method.loss == METHOD_OF_INTEREST else ""
        if method in problem.references[:1]:
            table.add_section()
        table.add_row(Text(printable(method.title, 24), style=style), *cells)
    for heading, column in zip([*headings, "seconds"], zip(*rows, strict=True), strict=True):
        needed += 1 + max(len(heading), *(len(line) for cell in column for line in cell.plain.split("\n")))
    return table, needed


def _table(title: str, first: str, headings: Sequence[str]) -> Table:
    table = Table(title=Text(title, style="bold"), title_justify="left", box=HORIZONTALS, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, min_width=_NAME_WIDTH)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _cell(problem: Problem, method: Method, metric: str, is_best: bool, between: str) -> Text:
    text = ("*" if is_best else "") + between.join(summary.score_texts(problem, method, metric)).rstrip()
    return Text(text, style="bold green" if is_best else "", justify="right")


def _by_target(found: score_tables.SortableTable) -> Table:
    """Return the scores of each target, one line for each: names and numbers of many methods would not fit."""
    best = [next((pair for pair in found.rows if pair[1][k].mark == "best"), None) for k in range(len(found.headings) - 1)]
    own = next((cells for method, cells in found.rows if method.loss == METHOD_OF_INTEREST), None)
    table = _table("every target, mean prediction", "score", ["best", "by", *([] if own is None else [summary.INTEREST])])
    for index, (heading, pair) in enumerate(zip(found.headings[1:], best, strict=True)):
        cells = (NOTHING, NOTHING) if pair is None else (pair[1][index].text, printable(pair[0].title, 16))
        table.add_row(Text(heading.title), *cells, *([] if own is None else [own[index].text]))
    return table


def _within(problem: Problem) -> Table:
    """Return metrics of agreement within groups."""
    found = score_tables.within_table(problem)
    assert found is not None
    table = _table(f"within {printable(problem.pairs_within or '', 40)}, of the mean", "method", list(_SHORT_TITLES))
    for method, cells in found.rows:
        table.add_row(Text(printable(method.title, 24)), *(Text(f"{'*' * (cell.mark == 'best')}{cell.text}") for cell in cells))
    return table


def _gains(problem: Problem) -> Table | None:
    """Return the gains of GAR of each family over the baseline of its own, and over the best rival of all."""
    if summary.unbeaten_reference(problem) is not None:
        return None
    metric = problem.selected_by
    table = _table("", "", [METRICS[metric].title, "p unpaired", "p paired"])
    for method in summary.methods_of_interest(problem):
        rivals = {"": summary.baseline_of(problem, method), "the best rival, ": summary.best_rival(problem, metric)}
        if rivals[""] is rivals["the best rival, "]:
            del rivals[""]
        for prefix, rival in rivals.items():
            if rival is None:
                continue
            one = summary.compare_methods(problem, metric, rival, method)
            gain = score_tables.gain_text(problem, metric, rival, one, method)
            name = f"{printable(method.title, 24)} over {prefix}{printable(rival.title, 24)}"
            table.add_row(Text(name), gain, probability(one.p), probability(one.p_corrected))
    return table if table.row_count else None
