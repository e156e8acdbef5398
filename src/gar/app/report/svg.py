"""A drawn figure, cut into panels for a page: small, in the page's colours, each method's marks under its name.

The marks keep their place; only what a page does not need goes: names, styles (which a strict page would refuse), digits.
"""

import re
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

from gar.app.report.plots.drawing import Plot
from gar.app.report.style import GRID, INK, MUTED, Look

Element = ElementTree.Element
_SPACE = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COMMAND = re.compile(r"([MLCHz])([^MLCHz]*)")
_LEFT_OUT = {"font-family", "stroke-dashoffset", "stroke-linejoin", "stroke-linecap"}
"""The page has its own font, and ends and corners of thin lines look alike in any shape."""
_CIRCLE = re.compile(r"M 0 ([\d.]+) (?:C [-\d. ]+){8}z ?")


class Cutter:
    """Cuts panels out of one figure.

    Args:
        svg: of :func:`gar.app.report.plots.drawing.svg_of`.
        looks: the methods' looks; their colours become variables of the page.
        prefix: for ids, so that those of several figures do not meet.
    """

    def __init__(self, svg: bytes, looks: Iterable[Look], prefix: str) -> None:
        root = ElementTree.fromstring(svg)
        self._prefix = prefix
        self._by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
        self._series = {look.key for look in looks}
        self._colours: Mapping[str, str] = {INK: "currentColor", MUTED: "var(--muted)", GRID: "var(--grid)"} | {
            look.light: f"var(--{look.key})" for look in looks
        }

    def panel(self, plot: Plot, place: int) -> str:
        """The panel at this place as an element of a page."""
        box = " ".join(_short(value) for value in plot.box(place))
        root = Element("svg", {"viewBox": box, "role": "img", "aria-label": plot.panels[place].alt, "fill": "none"})
        marks = _gathered(self._converted(self._by_id[f"panel{place}"]))
        used = [child for element in marks for child in element.iter() if child.get("clip-path")]
        for number, name in enumerate(dict.fromkeys(str(child.get("clip-path")) for child in used)):
            clip = f"{self._prefix}{place}c{number}"
            root.append(self._clip(name, clip))
            for child in used:
                child.set("clip-path", child.get("clip-path", "").replace(name, f"url(#{clip})"))
        root.extend(marks)
        return ElementTree.tostring(root, encoding="unicode")

    def _clip(self, reference: str, name: str) -> Element:
        made = Element("clipPath", {"id": name})
        rect = self._by_id[reference.removeprefix("url(#").removesuffix(")")][0]
        made.append(Element("rect", {key: _short(float(value)) for key, value in rect.attrib.items()}))
        return made

    def _converted(self, element: Element) -> list[Element]:
        """What an element becomes: groups without a meaning give way to what they hold."""
        tag = element.tag.removeprefix(_SPACE)
        if tag == "g":
            return self._group(element)
        if tag in ("path", "text"):
            return self._mark(tag, element)
        return []  # definitions are looked up where they are used

    def _group(self, element: Element) -> list[Element]:
        inner = [made for child in element for made in self._converted(child)]
        uses = element.findall(f"{_SPACE}use")
        inner += self._markers(uses) if uses else []
        attributes = self._attributes(element)
        if element.get("id") in self._series:
            attributes["data-series"] = str(element.get("id"))
        if not attributes or not inner:
            return inner
        if len(inner) == 1 and not attributes.keys() & inner[0].keys():  # a group of one is that one
            inner[0].attrib |= attributes
            return inner
        group = Element("g", attributes)
        group.extend(inner)
        return [group]

    def _mark(self, tag: str, element: Element) -> list[Element]:
        attributes = self._attributes(element)
        if tag == "path":
            if "fill" not in attributes and "stroke" not in attributes:
                return []
            attributes["d"] = _path(element.get("d", ""))
        made = Element(tag, attributes)
        made.text = element.text if tag == "text" else None
        return [made]

    def _markers(self, uses: list[Element]) -> list[Element]:
        """Equal markers as one path; filled circles as dots of a round pen, which takes a tenth of the room."""
        shape = " ".join(self._by_id[uses[0].get(_LINK, "").removeprefix("#")].get("d", "").split())
        attributes = self._attributes(uses[0])
        circle = _CIRCLE.fullmatch(f"{shape} ")
        places = [(float(use.get("x", "0")), float(use.get("y", "0"))) for use in uses]
        if circle and "stroke" not in attributes:
            pen = {"stroke-width": _short(2 * float(circle[1])), "stroke-linecap": "round", "stroke": attributes.pop("fill")}
            if "fill-opacity" in attributes:
                pen["stroke-opacity"] = attributes.pop("fill-opacity")
            attributes |= pen
            attributes["d"] = _path("".join(f"M {x} {y} H" for x, y in places))
        else:
            attributes["d"] = "".join(_path(shape, x, y) for x, y in places)
        return [Element("path", {key: value for key, value in attributes.items() if key not in ("x", "y")})]

    def _attributes(self, element: Element) -> dict[str, str]:
        """Style and place as plain attributes, colours as the page's own."""
        pairs = [rule.split(":", 1) for rule in element.get("style", "").split(";") if ":" in rule]
        style = {name.strip(): value.strip() for name, value in pairs}
        style = {name: value for name, value in style.items() if name not in _LEFT_OUT and value not in ("", "none")}
        made = {name: self._colours.get(value, value.removesuffix("px")) for name, value in style.items()}
        made |= {name: _short(float(element.get(name, "0"))) for name in ("x", "y") if element.get(name)}
        if turned := re.match(r"rotate\((-?[1-9]\S*) ", element.get("transform", "")):
            made["transform"] = f"rotate({turned[1]} {made['x']} {made['y']})"
        if clip := element.get("clip-path"):
            made["clip-path"] = clip
        return made


def _gathered(marks: list[Element]) -> list[Element]:
    """What belongs to no method comes first: lines of one kind as one path, labels of one kind as one group."""
    kinds: dict[tuple[str, ...], list[Element]] = {}
    looks: dict[tuple[str, ...], dict[str, str]] = {}
    for mark in (mark for mark in marks if not mark.get("data-series")):
        look = {name: value for name, value in mark.attrib.items() if name not in ("d", "x", "y", "transform")}
        kind = (mark.tag, *sum(sorted(look.items()), ()))
        kinds.setdefault(kind, []).append(mark)
        looks[kind] = look
        mark.attrib = {name: value for name, value in mark.attrib.items() if name not in look}
    made = []
    for kind, alike in kinds.items():
        if kind[0] == "path":
            made.append(Element("path", looks[kind] | {"d": "".join(mark.get("d", "") for mark in alike)}))
        else:
            made.append(Element("g", looks[kind]))
            made[-1].extend(alike)
    return made + [mark for mark in marks if mark.get("data-series")]


def _path(data: str, x: float = 0.0, y: float = 0.0) -> str:
    """The same path, moved, in steps of a tenth of a point; by the way from point to point, which takes fewer digits.

    ``H`` without a number is a dot: a line of no length, which a round pen shows.
    """
    made, here, last = "", (0, 0), ""
    for command, numbers in _COMMAND.findall(data):
        values = [round(10 * (float(number) + (y if place % 2 else x))) for place, number in enumerate(numbers.split())]
        if command == "L" or (command == "M" and last == "H"):
            way = "".join(_tenths(one - other, joined=True) for one, other in zip(values, here, strict=True))
            made += way if last == "L" else f"{command.lower()}{way.lstrip()}"
        else:
            made += "h0" if command == "H" else command + "".join(_tenths(v, joined=place > 0) for place, v in enumerate(values))
        here, last = (values[-2], values[-1]) if values else here, command
    return made


def _tenths(value: int, *, joined: bool) -> str:
    """A tenth of a whole number, set apart from the number before it."""
    text = f"{value / 10:g}".replace("0.", ".") if abs(value) < 10 else f"{value / 10:g}"
    return f" {text}" if joined and value >= 0 else text


def _short(value: float) -> str:
    return _tenths(round(10 * value), joined=False)
