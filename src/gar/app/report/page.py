"""One page that holds everything, the results as JSON, and the figures as files."""

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

from gar.app.report import tables
from gar.app.report.plots import plots_of
from gar.app.report.plots.drawing import Plot, View, draw, drawing, png_of, svg_of
from gar.app.report.results import Method, Problem, Results
from gar.app.report.style import METRICS, THEME, Look, looks_of, number, printable
from gar.app.report.summary import headline, in_order, verdict
from gar.app.report.svg import Cutter
from gar.errors import InputError
from gar.files import write_whole

_POINTS, _FEWEST_POINTS, _MOST_POINTS = 12_000, 100, 2_000
_STEPS, _FEWEST_STEPS, _MOST_STEPS = 400, 40, 130
"""Points on a page, and in one cloud; points of a line on all problems together, and on one. They keep a page of many problems
small, and a cloud readable."""


@dataclass(frozen=True)
class Drawn:
    """A figure as the page needs it."""

    plot: Plot
    file: str
    panels: Sequence[tuple[Markup, str]]
    """Each with the key of its method, if it shows one alone."""


def write_report(results: Results, folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html``, ``results.json`` and ``figures/`` into a folder, which is made if need be.

    The page needs nothing beside itself and asks the network for nothing. Every file appears whole or not at all, the page last.
    Equal results give equal bytes.

    Args:
        results: what a comparison found.
        folder: where to write; files of an older report are replaced, others left alone.

    Returns:
        The path of the page.
    """
    target = Path(folder)
    for place in (target, target / "figures"):
        if place.exists() and not place.is_dir():
            raise InputError(f"{place} is a file; name a folder for the report, or move the file away")
    looks = looks_of(method.name for problem in results.problems for method in problem.methods)
    files: dict[str, bytes] = {}
    sections = [(view.problem, _drawn(view, place, files)) for place, view in enumerate(_views(results, looks), 1)]
    files["results.json"] = results.to_json().encode()
    files["report.html"] = render(results, sections, looks).encode()
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(target / name, content)
    return target / "report.html"


def _views(results: Results, looks: Mapping[str, Look]) -> list[View]:
    """Every problem, in as much detail as fits the page."""
    clouds = 2 * sum(method.predictions is not None for problem in results.problems for method in problem.methods)
    points = min(max(_POINTS // max(clouds, 1), _FEWEST_POINTS), _MOST_POINTS)
    steps = min(max(_STEPS // len(results.problems), _FEWEST_STEPS), _MOST_STEPS)
    return [View(problem, in_order(problem), dict(looks), points, steps) for problem in results.problems]


def _drawn(view: View, place: int, files: dict[str, bytes]) -> list[Drawn]:
    """Draw all figures of a problem, and put them among the files."""
    made = []
    for counted, plot in enumerate(plots_of(view)):
        file = f"figures/{place}-{_file_name(view.problem.name)}-{plot.name}"
        with drawing():
            figure = draw(plot, view)
            files[f"{file}.svg"], files[f"{file}.png"] = svg_of(figure), png_of(figure)
        cutter = Cutter(files[f"{file}.svg"], list(view.looks.values()), f"c{place}-{counted}-")
        cut = [Markup(cutter.panel(plot, panel)) for panel in range(len(plot.panels))]  # escaped by its writer
        keys = [view.look(panel.method).key if panel.method else "" for panel in plot.panels]
        made.append(Drawn(plot, file, list(zip(cut, keys, strict=True))))
    return made


def _file_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "problem"


def render(results: Results, sections: Sequence[tuple[Problem, list[Drawn]]], looks: Mapping[str, Look]) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("gar.app.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"printable": printable, "number": partial(number, places=0)}
    style, script = (Markup(text) for text in (_style(environment, looks), _source(environment, "page.js")))  # our own
    return environment.get_template("page.html").render(
        results=results,
        headline=headline(results),
        sections=list(_sections(sections)),
        overview=tables.overview(results),
        looks=looks,
        metrics=METRICS,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_for_script(json.dumps(json.loads(results.to_json()), separators=(",", ":"))),
    )


def _sections(sections: Sequence[tuple[Problem, list[Drawn]]]) -> Iterator[dict[str, Any]]:
    for place, (problem, drawn) in enumerate(sections, 1):
        groups: dict[str, list[Drawn]] = {}
        for one in drawn:
            groups.setdefault(one.plot.group or one.plot.title, []).append(one)
        yield {
            "id": f"p{place}",
            "problem": problem,
            "verdict": verdict(problem),
            "scores": tables.score_table(problem),
            "duels": tables.duel_table(problem),
            "settings": tables.settings_table(problem.settings),
            "choices": tables.choice_table(problem),
            "groups": groups,
            "legends": {title: _legend(views) for title, views in groups.items()},
        }


def _legend(views: Sequence[Drawn]) -> list[Method]:
    """The methods of all views of a figure."""
    return list({method.name: method for view in views for method in view.plot.legend}.values())


def _style(environment: Environment, looks: Mapping[str, Look]) -> str:
    """The style sheet with the colours of page and methods, light and dark."""
    colours = THEME | {look.key: (look.light, look.dark) for look in looks.values()}
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in colours.items()) for side in (0, 1))
    themes = f":root{{color-scheme:light;{light}}}\n:root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
    themes += f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
    return themes + _source(environment, "page.css")


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    """What a policy calls an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _for_script(text: str) -> Markup:
    """JSON that cannot end the element it stands in."""
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # nothing in it can open or close a tag any more
