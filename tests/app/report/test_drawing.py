"""Looks of methods: each is different for every reader, and safe in a page whatever a method is called."""

import itertools
import re

import numpy as np
import pytest

import gar.registry
from gar.app.report import Method
from gar.app.report.drawing import FREE_STYLES, INK, looks_of, method_looks
from gar.app.report.page import _style
from gar.registry import LOSSES, LossSpec, Style

STYLES = {name: spec.style for name, spec in LOSSES.items() if spec.style is not None}


def test_losses_keep_their_look_and_others_get_one_each() -> None:
    names = [*STYLES, *(f"other model {number}" for number in range(6))]
    looks = looks_of(names)
    assert {field: getattr(looks["gar"], field) for field in ("light", "dark", "dash", "marker")} == vars(STYLES["gar"])
    assert len({look.key for look in looks.values()}) == len(names)
    assert looks_of(["x", "gar"])["gar"] == looks["gar"]
    assert all(re.fullmatch(r"[a-z0-9_-]+", look.key) for look in looks.values())
    assert len({style.dash for style in STYLES.values()}) >= len(STYLES) - 1, "only GAR and the baseline have solid lines"


# Colours as people with normal sight, without green and without red see them (Machado and others, 2009), in linear light.
SIGHT = {
    "normal": np.eye(3),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(to_xyz @ np.clip(light, 0, 1) / [0.9505, 1, 1.089], 1e-4, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    lights = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return lights[1] / lights[0]


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("side", ["light", "dark"])
def test_colours_differ_for_every_reader(sight: str, side: str) -> None:
    seen = {name: lab(SIGHT[sight] @ linear(getattr(style, side))) for name, style in STYLES.items()}
    apart = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in itertools.combinations(seen, 2)}
    assert min(distance for pair, distance in apart.items() if "gar" in pair) > 18
    assert min(apart.values()) > 5, "a difference that an eye notices"


@pytest.mark.parametrize("style", [*STYLES.values(), *FREE_STYLES], ids=lambda style: style.light)
def test_lines_stand_out_from_the_background(style: Style) -> None:
    assert contrast(style.light, "#ffffff") >= 2.9
    assert contrast(style.dark, "#15181d") >= 3.0


def test_trees_have_the_colour_of_their_loss_and_a_dash_of_their_family() -> None:
    pairs = [("gar", "mlp"), ("gar", "xgboost"), ("gar", "lightgbm"), ("mae", "xgboost"), ("gar", "<script>"), ("mae", "<x>")]
    methods = [
        Method(loss=loss, family=family, title="", parameter=None, models=1, failed=0, seconds=1.0, scores={})
        for loss, family in pairs
    ]
    looks = method_looks(methods)
    trees = [looks[method.name] for method in methods[:3]]
    assert {look.light for look in trees} == {looks["gar"].light}
    assert len({look.dash for look in trees}) == len({look.marker for look in trees}) == 3
    assert looks["mae-xgboost"].dash == looks["gar-xgboost"].dash
    assert all(look.is_of_interest for look in trees)
    keys = [look.key for look in looks.values()]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9_-]+", key) for key in keys), "a family from elsewhere cannot break out of a style sheet"


def test_losses_from_outside_have_their_own_style_or_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss may be called like a colour of the page, which it does not replace."""
    own = Style(light="#123456", dark="#abcdef", marker="*")
    monkeypatch.setitem(gar.registry._LOSSES, "plain", LossSpec(title="Plain", module="gar.losses:MAELoss"))
    monkeypatch.setitem(gar.registry._LOSSES, "ink", LossSpec(title="Ink", module="gar.losses:MAELoss", style=own))
    looks = looks_of(["plain", "ink", "unregistered"])
    assert [looks[name].light for name in ("plain", "unregistered")] == [style.light for style in FREE_STYLES[:2]]
    assert (looks["ink"].light, looks["ink"].dark, looks["ink"].marker) == ("#123456", "#abcdef", "*")
    sheet = _style(looks)
    assert f"--ink:{INK};" in sheet
    assert "--series-ink:#123456;" in sheet
