"""Panels of a figure for a page: small SVG elements in the page's colours, with the marks of each method under its key.

Matplotlib's own SVG is many times larger, and full of inline styles, which the content policy of the page forbids.
"""

from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import GraphicsContextBase as Context, RendererBase
from matplotlib.colors import to_hex
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Transform

from gar.app.report.drawing import GRID, INK, MUTED, Look

_LETTERS = {Path.MOVETO: "M", Path.CURVE3: "Q", Path.CURVE4: "C"}
_ANCHORS = {"left": "start", "center": "middle", "right": "end"}


def panel_svg(axes: Axes, box: tuple[float, float, float, float], looks: Iterable[Look], *, alt: str, clip: str) -> str:
    """Return one panel of a drawn figure as an SVG element; call it within :func:`gar.app.report.drawing.drawing`.

    Args:
        axes: of the panel.
        box: left, top, width and height of the panel in the figure.
        looks: of all methods; their colours become variables of the page.
        alt: the panel in words.
        clip: an id for the frame of the axes, unique on the page.
    """
    renderer = _PanelRenderer(axes, looks, clip)
    axes.draw(renderer)
    root = Element("svg", {"viewBox": " ".join(map(_tenths, box)), "role": "img", "aria-label": alt, "fill": "none"})
    renderer.add_to(root)
    return tostring(root, encoding="unicode")


class _PanelRenderer(RendererBase):
    """Collects what matplotlib draws: marks of the same series and appearance become one SVG element."""

    def __init__(self, axes: Axes, looks: Iterable[Look], clip: str) -> None:
        super().__init__()
        self._width, self._height = map(float, axes.figure.bbox.size)  # in points, because figures have 72 dots per inch
        self._flip = Affine2D().scale(1, -1).translate(0, self._height)
        self._clip, self._frame = clip, axes.bbox.transformed(self._flip)
        self._variables = {INK: "currentColor", MUTED: "var(--muted)", GRID: "var(--grid)"}
        self._variables |= {to_hex(look.light): f"var(--series-{look.key})" for look in looks}
        self._keys = {look.key for look in looks}
        self._series = [""]
        self._marks: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[Any]] = {}

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self._width, self._height

    def open_group(self, s: str, gid: str | None = None) -> None:
        self._series.append(gid if gid in self._keys else self._series[-1])

    def close_group(self, s: str) -> None:
        self._series.pop()

    def draw_path(self, gc: Context, path: Path, transform: Transform, face: Any = None) -> None:
        is_line = face is None
        clip = (0.0, 0.0, self._width, self._height) if is_line else None
        segments = path.iter_segments(transform + self._flip, clip=clip, simplify=is_line and path.should_simplify)
        self._add(gc, "path", self._painted(gc, face), _path_data(segments))

    def draw_markers(
        self, gc: Context, marker_path: Path, marker_trans: Transform, path: Path, trans: Transform, face: Any = None
    ) -> None:
        """Draw filled circles as dots of a round pen, which needs a tenth of the characters, and other markers as paths."""
        attributes = self._painted(gc, face)
        is_circle = marker_path.codes is not None and np.isin(Path.CURVE4, marker_path.codes)
        if not is_circle or attributes.get("stroke", attributes.get("fill")) != attributes.get("fill"):
            super().draw_markers(gc, marker_path, marker_trans, path, trans, face)
            return
        width = marker_path.get_extents(marker_trans).width + float(attributes.get("stroke-width", "0"))
        attributes |= {"stroke": attributes.pop("fill"), "stroke-width": _tenths(width), "stroke-linecap": "round"}
        centres = (trans + self._flip).transform(path.vertices)
        dots = [_joined(np.rint(10 * centre), "M") + "h0" for centre in centres[np.isfinite(centres).all(1)]]  # lines of no length
        self._add(gc, "path", attributes, "".join(dots))

    def draw_text(
        self, gc: Context, x: float, y: float, s: str, prop: Any, angle: float, ismath: Any = False, mtext: Text | None = None
    ) -> None:
        """Anchor text where it is aligned, because letters of the page's font have other widths."""
        start, anchor = np.array([x, y]), "start"
        if mtext is not None:
            anchor = _ANCHORS[mtext.get_horizontalalignment()]
            aligned = (mtext.get_transform() + self._flip).transform(mtext.get_unitless_position())
            direction = np.array([np.cos(np.deg2rad(angle)), -np.sin(np.deg2rad(angle))])
            start = start + (aligned - start) @ direction * direction
        attributes = {"fill": self._colour(gc.get_rgb()), "font-size": f"{prop.get_size_in_points():g}", "text-anchor": anchor}
        attributes |= {"font-weight": "bold"} if prop.get_weight() == "bold" else {}
        where = {"x": _tenths(start[0]), "y": _tenths(start[1])}
        where |= {"transform": f"rotate({-angle:g} {where['x']} {where['y']})"} if angle else {}
        text = Element("text", where)
        text.text = s
        self._add(gc, "text", attributes, text)

    def _painted(self, gc: Context, face: Any) -> dict[str, str]:
        """Return fill, stroke and opacity as attributes."""
        made, alpha = {}, float(gc.get_rgb()[3])
        if face is not None:
            made["fill"], alpha = self._colour(face), float(face[3]) if len(face) > 3 else alpha
        if gc.get_linewidth():
            made |= {"stroke": self._colour(gc.get_rgb()), "stroke-width": f"{gc.get_linewidth():g}"}
            if (dashes := gc.get_dashes()[1]) is not None:
                made["stroke-dasharray"] = " ".join(f"{length:.3g}" for length in np.asarray(dashes, float))
        if (alpha := gc.get_alpha() if gc.get_forced_alpha() else alpha) != 1:
            made["opacity"] = f"{alpha:g}"
        return made

    def _colour(self, colour: Any) -> str:
        shown = to_hex(colour)
        return self._variables.get(shown, shown)

    def _add(self, gc: Context, tag: str, attributes: dict[str, str], mark: Element | str) -> None:
        if gc.get_clip_rectangle() is not None:
            attributes["clip-path"] = f"url(#{self._clip})"
        if ("fill" in attributes or "stroke" in attributes) and mark != "":
            self._marks.setdefault((self._series[-1], tag, tuple(attributes.items())), []).append(mark)

    def add_to(self, root: Element) -> None:
        """Append all marks to an element; those of no method come first."""
        sides = {"x": self._frame.xmin, "y": self._frame.ymin, "width": self._frame.width, "height": abs(self._frame.height)}
        frame = {name: _tenths(side) for name, side in sides.items()}
        SubElement(SubElement(root, "clipPath", {"id": self._clip}), "rect", frame)
        for (series, tag, attributes), marks in sorted(self._marks.items(), key=lambda item: item[0][0] != ""):
            shared = ({"data-series": series} if series else {}) | dict(attributes)
            if tag == "path":
                SubElement(root, "path", shared | {"d": "".join(marks)})
            else:
                SubElement(root, "g", shared).extend(marks)


def _path_data(segments: Iterable[tuple[np.ndarray, Any]]) -> str:
    """Return a path in tenths of a point; lines go by steps from rounded point to rounded point, which needs fewer digits."""
    data, here, last = "", np.zeros(2), 0
    for vertices, code in segments:
        values = np.rint(10 * np.asarray(vertices))
        if code == Path.CLOSEPOLY:
            data += "z"
        elif code == Path.LINETO:
            data += _joined(values - here, "" if last == Path.LINETO else "l")
        else:
            data += _joined(values, _LETTERS[code])
        here, last = here if code == Path.CLOSEPOLY else values[-2:], code
    return data


def _joined(tenths: np.ndarray, letter: str) -> str:
    """Return a command with its numbers, separated only where it is necessary."""
    numbers = "".join(text if text.startswith("-") else f" {text}" for text in (_tenths(value / 10) for value in tenths))
    return letter + numbers.lstrip() if letter else numbers


def _tenths(value: float) -> str:
    """Return a number with one decimal, without a zero before or after the point."""
    text = f"{round(10 * value) / 10:g}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
