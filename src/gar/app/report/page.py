"""The report as files: one page that contains everything, the results as JSON, and the figures."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gar.app.report.drawing import ASSETS, GRID, INK, MUTED, Look, Plot, View, draw, drawing, method_looks, png_of, svg_of
from gar.app.report.formatting import NOTHING, number, printable, short
from gar.app.report.prediction_plots import against_truth, residuals
from gar.app.report.results import Method, Problem, Results
from gar.app.report.score_plots import components, fits, fold_scores, learning, sensitivity
from gar.app.report.score_tables import gain_table, overview, score_table, target_table, within_table
from gar.app.report.summary import INTEREST, headline, metric_title, next_step, saved_text, setting_text, verdict
from gar.app.report.svg import panel_svg
from gar.errors import InputError
from gar.files import write_whole
from gar.registry import BASELINE, LOSSES, METHOD_OF_INTEREST, METRICS

Groups = dict[str, list[dict[str, Any]]]
"""Figures by title: views of the same data, each with its plot, file and panels (SVG, and the key of a panel's only method)."""

_POINTS, _FEWEST_POINTS, _MOST_POINTS = 12_000, 100, 2_000
_STEPS, _FEWEST_STEPS, _MOST_STEPS = 400, 40, 130
"""Points in all scatter plots, and in one; points of a line on all problems together, and on one. They limit the size of a page
with many problems, and keep scatter plots readable."""

_MOST_ROWS = 10
"""Rows of a table that are shown at first."""

_THEME = {
    "ink": (INK, "#e6e9ed"),
    "muted": (MUTED, "#98a2ae"),
    "grid": (GRID, "#30363d"),
    "paper": ("#ffffff", "#15181d"),
    "raised": ("#f6f7f9", "#1d2127"),
    "edge": ("#d3d8de", "#3a414a"),
    "accent": ("#1a4fa0", "#8ab4ff"),
    "good": ("#0a6b3d", "#5fd39a"),
    "bad": ("#a3170f", "#ff9b8f"),
}
"""Colours of the page, light and dark."""


def write_report(results: Results, folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html``, ``results.json`` and ``figures/`` into a folder, which is created if necessary.

    The page needs no other file and never accesses the network. Every file is written completely or not at all, the page last.
    Equal results give equal bytes.

    Args:
        results: of a comparison.
        folder: where to write; files of an older report are replaced, others are left alone.

    Returns:
        The path of the page.
    """
    target = Path(folder)
    for path in (target, target / "figures"):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; name a folder for the report, or move the file away")
    looks = method_looks(method for problem in results.problems for method in (*problem.methods, *problem.references))
    files: dict[str, bytes] = {}
    groups = [_drawn(view, number, files) for number, view in enumerate(_views(results, looks), 1)]
    text = results.to_json()
    files |= {"results.json": text.encode(), "report.html": _render(results, text, groups, looks).encode()}
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(target / name, content)
    return target / "report.html"


def _views(results: Results, looks: Mapping[str, Look]) -> list[View]:
    """Return every problem with as many points as fit the page."""
    scatters = 2 * sum(method.predictions is not None for problem in results.problems for method in problem.methods)
    points = min(max(_POINTS // max(scatters, 1), _FEWEST_POINTS), _MOST_POINTS)
    steps = min(max(_STEPS // len(results.problems), _FEWEST_STEPS), _MOST_STEPS)
    return [View(problem, in_order(problem), looks, points, steps) for problem in results.problems]


def in_order(problem: Problem) -> list[Method]:
    """Return the methods of interest, the baselines, then the others as they come."""
    first = {METHOD_OF_INTEREST: 0, BASELINE: 1}
    return sorted(problem.methods, key=lambda method: first.get(method.loss, 2))


def _drawn(view: View, number: int, files: dict[str, bytes]) -> Groups:
    """Draw all figures of a problem, add them to the files, and return them in groups of views of the same data."""
    groups: Groups = {}
    prefix = f"figures/{number}-{_file_name(view.problem.name)}"
    for index, plot in enumerate(plots_of(view)):
        file = f"{prefix}-{_file_name(plot.name)}"
        panels: list[tuple[Markup, str]] = []
        with drawing():
            figure = draw(plot, view)
            files[f"{file}.svg"], files[f"{file}.png"] = svg_of(figure), png_of(figure)
            for panel, axes in zip(plot.panels, figure.axes, strict=True):
                box, clip = plot.box(len(panels)), f"c{number}-{index}-{len(panels)}"
                svg = panel_svg(axes, box, view.looks.values(), alt=panel.alt, clip=clip)
                panels.append((Markup(svg), view.look(panel.method).key if panel.method else ""))  # it has escaped all text
        groups.setdefault(plot.group or plot.title, []).append({"plot": plot, "file": file, "panels": panels})
    return groups


def plots_of(view: View) -> Iterator[Plot]:
    """Yield all figures that the results of a problem allow, in the order of the page."""
    for figures in (fold_scores, fits, learning, against_truth, residuals, components, sensitivity):
        yield from figures(view)


def _file_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "problem"


def _render(results: Results, text: str, groups: Sequence[Groups], looks: Mapping[str, Look]) -> str:
    """Return the page, which contains the results as JSON text too."""
    loader = FileSystemLoader(ASSETS)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"printable": printable, "number": partial(number, digits=0), "short": short, "setting": setting_text}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    style, script = Markup(_style(looks)), Markup((ASSETS / "page.js").read_text(encoding="utf-8"))  # our own files
    return environment.get_template("page.html").render(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        sections=[_section(*one) for one in zip(range(1, len(groups) + 1), results.problems, groups, strict=True)],
        results=results,
        headline=headline(results),
        overview=list(overview(results)),
        interest=INTEREST,
        baseline=LOSSES[BASELINE].title,
        looks=looks,
        metrics=METRICS,
        nothing=NOTHING,
        most_rows=_MOST_ROWS,
        data=json.loads(text),
    )


def _style(looks: Mapping[str, Look]) -> str:
    """Return the style sheet with the colours of page and methods, light and dark."""
    colours = _THEME | {f"series-{look.key}": (look.light, look.dark) for look in looks.values()}
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in colours.items()) for side in (0, 1))
    themes = f":root{{color-scheme:light;{light}}}\n:root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    themes += f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
    return themes + (ASSETS / "page.css").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which a content policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _caption(problem: Problem) -> str:
    """Return what the numbers of the table of scores are."""
    text = f"Mean (standard deviation) over {'seeds' if problem.truth else 'folds'}; the star marks the best mean."
    if any(method.ensemble for method in problem.methods):
        title = metric_title(problem, problem.selected_by)
        text += f" The {title} of the mean is that of all folds' models together, as they are saved."
    if problem.pairs_within is not None:
        text += f" Pearson and Spearman are means over groups of {printable(problem.pairs_within)}; other metrics are of all rows."
    if problem.references:
        text += " The constant and the linear model below are what every method should beat; they take no part in the ranking."
    return f"{text} Click a heading to sort."


def _section(number: int, problem: Problem, groups: Groups) -> dict[str, Any]:
    """Return what the template shows of one problem."""
    legends = {
        title: {method.name: method for view in views for method in view["plot"].legend}.values() for title, views in groups.items()
    }
    return {
        "id": f"p{number}",
        "problem": problem,
        "verdict": verdict(problem),
        "saved": saved_text(problem),
        "next_step": next_step(problem),
        "caption": _caption(problem),
        "scores": score_table(problem),
        "within": within_table(problem),
        "targets": target_table(problem),
        "gains": gain_table(problem),
        "groups": groups,
        "legends": legends,
    }
