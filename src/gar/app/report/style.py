"""How things look, in one place: a colour, dash and marker for every method, names of metrics, and how numbers are written."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

CHAMPION, BASELINE = "gar", "mae"
"""The method that a report is about, and the one that gains are counted from."""

FAMILIES = {"": "Networks", "xgboost": "XGBoost", "lightgbm": "LightGBM"}
"""Kinds of models, as the ends of methods' names tell them."""

INK, MUTED, GRID = "#1c2127", "#6d7681", "#dfe3e8"
"""Text and axes, what stands back, and lines of the grid; on a dark page they become its own."""

THEME = {
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

NOTHING = "\N{EN DASH}"
"""Stands where there is no number."""

METRICS: dict[str, tuple[str, bool]] = {
    "mae": ("MAE", False),
    "rmse": ("RMSE", False),
    "pearson": ("Pearson", True),
    "spearman": ("Spearman", True),
    "r2": ("R²", True),
}
"""Title, and whether larger is better. (:mod:`gar.metrics` knows the same, but would import torch.)"""

Dash = tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """What one method looks like in every figure and table."""

    key: str
    """Its name in style sheets and figures: plain letters, whatever the method is called."""
    light: str
    dark: str
    dash: Dash = (0, ())
    marker: str = "o"

    @property
    def is_champion(self) -> bool:
        return self.key.partition("-")[0] == CHAMPION

    @property
    def width(self) -> float:
        """Of lines: the champion stands out."""
        return 2.1 if self.is_champion else 1.1


# Chosen so that the champion is far from all others, and these from each other, also for readers who see no red or no green.
# With ten methods colour alone is not enough: dashes and markers differ too.
_LOOKS = (
    Look("gar", "#d9480f", "#ff8a4c", marker="D"),
    Look("mae", "#3a298e", "#7a63f4"),
    Look("mse", "#5299e0", "#5ba0b9", (0, (5, 1.5)), "s"),
    Look("huber", "#12684b", "#6fe3b4", (0, (3, 1.2)), "^"),
    Look("focal_mae", "#8f995c", "#e3edb0", (0, (1.2, 1.2)), "v"),
    Look("focal_mse", "#791515", "#e0355f", (0, (5, 1.2, 1.2, 1.2)), "<"),
    Look("ranksim", "#852fda", "#b8a4fa", (0, (7, 2)), ">"),
    Look("rnc", "#be3791", "#fbd0f3", (0, (3, 1.2, 1, 1.2)), "p"),
    Look("conr", "#c87e8b", "#b88c89", (0, (1.2, 2.2)), "h"),
    Look("mae_pearson", "#56254e", "#b74cc4", (0, (7, 1.5, 1.2, 1.5, 1.2, 1.5)), "P"),
)
_FAMILY_LOOKS: dict[str, tuple[Dash, str]] = {"xgboost": ((0, (2.5, 0.8)), "s"), "lightgbm": ((0, (0.9, 0.9)), "^")}
"""Boosted trees have the colour of their loss, and a dash and marker of their family."""
_OTHERS = (
    Look("other0", "#5c6670", "#a7b1bc", (0, (2, 1)), "X"),
    Look("other1", "#00788c", "#52c7db", (0, (4, 1, 1, 1)), "*"),
    Look("other2", "#2f3b46", "#d5dbe1", (0, (1, 1)), "d"),
    Look("other3", "#7f8fa3", "#8797ab", (0, (8, 1.5)), "8"),
)


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """A look for every method name, in their order; losses of this library always get the same one.

    Example:
        >>> looks_of(["gar", "boosting"])["boosting"].key
        'other0'
        >>> looks_of(["gar-xgboost"])["gar-xgboost"].light == looks_of(["gar"])["gar"].light
        True
    """
    known = {look.key: look for look in _LOOKS}
    known |= {
        f"{look.key}-{family}": replace(look, key=f"{look.key}-{family}", dash=dash, marker=marker)
        for look in _LOOKS
        for family, (dash, marker) in _FAMILY_LOOKS.items()
    }
    distinct = list(dict.fromkeys(names))
    others = [name for name in distinct if name not in known]
    known |= {name: replace(_OTHERS[place % len(_OTHERS)], key=f"other{place}") for place, name in enumerate(others)}
    return {name: known[name] for name in distinct}


def printable(text: str, longest: int | None = None) -> str:
    """Text that may be shown anywhere: no control characters, at most ``longest`` characters.

    Example:
        >>> printable("a\\x1b[31mb" + "c" * 90, 8)
        'a�[31mb…'
    """
    clean = "".join(letter if letter.isprintable() else "�" for letter in text.replace("\n", " ").replace("\t", " "))
    return clean if longest is None or len(clean) <= longest else f"{clean[: longest - 1]}…"


def decimals(values: Iterable[float]) -> int:
    """Decimals that show about four digits of the largest value, so that a column of numbers lines up.

    Example:
        >>> decimals([4.6, 12.3]), decimals([0.93]), decimals([12345.0])
        (2, 3, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
    if largest == 0:
        return 3
    place = math.floor(math.log10(largest))
    return min(max(2 - place if place < 0 else 3 - place, 0), 8)


def number(value: float, places: int) -> str:
    """Example:
    >>> number(12345.6, 0), number(-0.0001, 3), number(float("nan"), 2), number(2.5e8, 0)
    ('12,346', '0.000', '–', '2.5e+08')
    """
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if abs(value) >= 1e7 or (value != 0 and abs(value) < 1e-7):
        return f"{value:.3g}"
    return f"{round(value, places) + 0.0:,.{places}f}"


def short(value: float) -> str:
    """Three digits, for prose and labels.

    Example:
        >>> short(0.92871), short(1234.5), short(10.0)
        ('0.929', '1,230', '10')
    """
    if not math.isfinite(value) or value == 0 or not 1e-4 <= abs(value) < 1e7:
        return number(value, 0) if not math.isfinite(value) or value == 0 else f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(value: float) -> str:
    """Example:
    >>> percent(3.14), percent(-0.2), percent(float("nan"))
    ('+3.1 %', '-0.2 %', '–')
    """
    return f"{round(value, 1) + 0.0:+.1f} %" if math.isfinite(value) else NOTHING


def probability(value: float) -> str:
    """Example:
    >>> probability(0.0314), probability(0.00002), probability(float("nan"))
    ('0.031', '<0.001', '–')
    """
    if math.isnan(value):
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"
