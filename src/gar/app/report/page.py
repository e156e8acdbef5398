"""The report as files: one page that contains everything, the results as JSON, and the figures."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gar.app.report import prediction_plots, score_plots, summary
from gar.app.report.drawing import GRID, INK, MUTED, Look, Plot, View, draw, drawing, method_looks, png_of, svg_of
from gar.app.report.formatting import number, printable
from gar.app.report.results import Method, Problem, Results
from gar.app.report.svg import panel_svg
from gar.errors import InputError
from gar.files import write_whole
from gar.registry import BASELINE, LOSSES, METRICS

_POINTS, _FEWEST_POINTS, _MOST_POINTS = 12_000, 100, 2_000
_STEPS, _FEWEST_STEPS, _MOST_STEPS = 400, 40, 130
"""Points in all scatter plots, and in one; points of a line on all problems together, and on one. They limit the size of a page
with many problems, and keep scatter plots readable."""

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


@dataclass(frozen=True)
class DrawnPlot:
    """A figure as the page shows it."""

    plot: Plot
    file: str
    panels: Sequence[tuple[Markup, str]]
    """Each with the key of its method, if it shows only one."""


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
    looks = method_looks(method for problem in results.problems for method in problem.methods)
    files: dict[str, bytes] = {}
    sections = [(view.problem, _drawn(view, index, files)) for index, view in enumerate(_views(results, looks), 1)]
    files["results.json"] = results.to_json().encode()
    files["report.html"] = _render(results, sections, looks).encode()
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(target / name, content)
    return target / "report.html"


def _views(results: Results, looks: Mapping[str, Look]) -> list[View]:
    """Return every problem with as many points as fit the page."""
    scatters = 2 * sum(method.predictions is not None for problem in results.problems for method in problem.methods)
    points = min(max(_POINTS // max(scatters, 1), _FEWEST_POINTS), _MOST_POINTS)
    steps = min(max(_STEPS // len(results.problems), _FEWEST_STEPS), _MOST_STEPS)
    return [View(problem, summary.in_order(problem), looks, points, steps) for problem in results.problems]


def _drawn(view: View, number: int, files: dict[str, bytes]) -> list[DrawnPlot]:
    """Draw all figures of a problem, and add them to the files."""
    made = []
    for index, plot in enumerate(plots_of(view)):
        file = f"figures/{number}-{_file_name(view.problem.name)}-{_file_name(plot.name)}"
        with drawing():
            figure = draw(plot, view)
            files[f"{file}.svg"], files[f"{file}.png"] = svg_of(figure), png_of(figure)
            panels = []
            for place, (panel, axes) in enumerate(zip(plot.panels, figure.axes, strict=True)):
                svg = panel_svg(axes, plot.box(place), view.looks.values(), alt=panel.alt, clip=f"c{number}-{index}-{place}")
                panels.append((Markup(svg), view.look(panel.method).key if panel.method else ""))  # it has escaped all text
        made.append(DrawnPlot(plot, file, panels))
    return made


def plots_of(view: View) -> list[Plot]:
    """Return all figures that the results of a problem allow, in the order of the page."""
    plots = [
        score_plots.fold_scores(view),
        prediction_plots.fits(view),
        *score_plots.learning(view),
        *prediction_plots.against_truth(view),
        prediction_plots.residuals(view),
        score_plots.components(view),
        score_plots.sensitivity(view),
    ]
    return [plot for plot in plots if plot is not None]


def _file_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "problem"


def _render(results: Results, sections: Sequence[tuple[Problem, list[DrawnPlot]]], looks: Mapping[str, Look]) -> str:
    """Return the page as text."""
    environment = Environment(
        loader=PackageLoader("gar.app.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"printable": printable, "number": partial(number, digits=0)}
    style, script = (Markup(text) for text in (_style(environment, looks), _source(environment, "page.js")))  # our own files
    return environment.get_template("page.html").render(
        results=results,
        headline=summary.headline(results),
        sections=list(_sections(sections)),
        overview=list(summary.overview(results)),
        interest=summary.INTEREST,
        baseline=LOSSES[BASELINE].title,
        looks=looks,
        metrics=METRICS,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_for_script(json.dumps(json.loads(results.to_json()), separators=(",", ":"))),
    )


def _sections(sections: Sequence[tuple[Problem, list[DrawnPlot]]]) -> Iterator[dict[str, Any]]:
    for index, (problem, drawn) in enumerate(sections, 1):
        groups: dict[str, list[DrawnPlot]] = {}
        for one in drawn:
            groups.setdefault(one.plot.group or one.plot.title, []).append(one)
        yield {
            "id": f"p{index}",
            "problem": problem,
            "verdict": summary.verdict(problem),
            "scores": summary.score_table(problem),
            "gains": summary.gain_table(problem),
            "settings": summary.settings_table(problem.settings),
            "choices": summary.choice_table(problem),
            "groups": groups,
            "legends": {title: _legend(views) for title, views in groups.items()},
        }


def _legend(views: Sequence[DrawnPlot]) -> list[Method]:
    """Return the methods of all views of a figure."""
    return list({method.name: method for view in views for method in view.plot.legend}.values())


def _style(environment: Environment, looks: Mapping[str, Look]) -> str:
    """Return the style sheet with the colours of page and methods, light and dark."""
    colours = _THEME | {f"series-{look.key}": (look.light, look.dark) for look in looks.values()}
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in colours.items()) for side in (0, 1))
    themes = f":root{{color-scheme:light;{light}}}\n:root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    themes += f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
    return themes + _source(environment, "page.css")


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    """Return the hash by which a content policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _for_script(text: str) -> Markup:
    """Return JSON that cannot end the element around it."""
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # nothing in it can open or close a tag any more
