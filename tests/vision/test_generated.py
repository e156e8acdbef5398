"""The generated dials: what they show, what keeps their target, and how they are written."""

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats

from gar.errors import InputError
from gar.vision.generated import Clock, draw_clocks, write_clocks

DIAL = Clock(
    minutes=22.0,
    centre=(0.45, 0.55),
    radius=0.38,
    turn=0.7,
    rim=0.0,
    face=(0.9, 0.8, 0.7),
    hands=(0.1, 0.0, 0.3),
    texture=(2.0, 3.0, 0.1, 0.1),
)


def covered(image: np.ndarray, inside: np.ndarray) -> float:
    """The share of the face under hands, from an image alone: every pixel is as much hand as it is dark, colours left aside."""
    grey = image.mean(-1)
    light, dark = np.mean(DIAL.face), np.mean(DIAL.hands)
    return float(((light - grey) / (light - dark))[inside].mean())


def face_of(clock: Clock, height: int, width: int) -> np.ndarray:
    """Pixels well inside the face."""
    down, across = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    inside: np.ndarray = np.hypot(across - clock.centre[0], down - clock.centre[1]) < 0.95 * clock.radius
    return inside


@pytest.mark.parametrize("minutes", [0.0, 7.5, 22.0, 45.0, 60.0])
def test_the_target_is_the_share_of_the_face_that_is_covered(minutes: float) -> None:
    clock = replace(DIAL, minutes=minutes)
    assert covered(clock.painted(128), face_of(clock, 128, 128)) == pytest.approx(minutes / 60, abs=0.01)


def test_a_flip_keeps_the_target() -> None:
    """A mirrored dial is the dial of the same target on the other side."""
    right, below, phase, amplitude = DIAL.texture
    other = replace(
        DIAL, centre=(1 - DIAL.centre[0], DIAL.centre[1]), turn=np.pi - DIAL.turn, texture=(-right, below, phase + right, amplitude)
    )
    np.testing.assert_allclose(other.painted(64), DIAL.painted(64)[:, ::-1], atol=1e-12)
    assert other.minutes == DIAL.minutes


@pytest.mark.parametrize(("width", "height"), [(64, 64), (96, 72), (72, 96), (48, 64)])
def test_size_and_proportions_keep_the_target(width: int, height: int) -> None:
    image = Image.fromarray(np.round(255 * DIAL.painted(256)).astype(np.uint8))
    resized = np.asarray(image.resize((width, height), Image.Resampling.BOX)) / 255
    assert covered(resized, face_of(DIAL, height, width)) == pytest.approx(DIAL.minutes / 60, abs=0.02)


@pytest.mark.parametrize("turn", np.linspace(0.0, 1.0, 4))
def test_every_quarter_of_a_dial_shows_the_target(turn: float) -> None:
    clock = replace(DIAL, centre=(0.5, 0.5), turn=float(turn))
    image, inside = clock.painted(128), face_of(clock, 128, 128)
    for rows in (slice(0, 64), slice(64, 128)):
        for columns in (slice(0, 64), slice(64, 128)):
            assert covered(image[rows, columns], inside[rows, columns]) == pytest.approx(clock.minutes / 60, abs=0.13)


def test_hands_are_darker_than_the_face_in_any_colour() -> None:
    for index in range(200):
        clock = Clock.draw(np.random.default_rng([9, index]))
        assert max(clock.hands) < min(clock.face) - 0.2


def test_images_depend_on_seed_and_index() -> None:
    images, minutes = draw_clocks(6, size=24, seed=3)
    again, same = draw_clocks(4, size=24, seed=3)
    np.testing.assert_array_equal(again, images[:4])
    np.testing.assert_array_equal(same, minutes[:4])
    assert not np.array_equal(draw_clocks(4, size=24, seed=4)[1], same)
    np.testing.assert_array_equal(draw_clocks(6, size=16, seed=3)[1], minutes)
    assert images.dtype == np.uint8
    assert images.shape == (6, 24, 24, 3)


def test_targets_are_uniformly_distributed() -> None:
    minutes = [Clock.draw(np.random.default_rng([0, index])).minutes for index in range(2000)]
    assert stats.kstest(minutes, stats.uniform(0, 60).cdf).pvalue > 0.05
    np.testing.assert_allclose(minutes, np.round(minutes, 1))


def test_only_the_hands_are_informative() -> None:
    """Position, size and colours of a dial are uncorrelated with its target."""
    clocks = [Clock.draw(np.random.default_rng([1, index])) for index in range(2000)]
    traits = [[*c.centre, c.radius, c.turn, c.rim, *c.face, *c.hands, *c.ground, *c.texture] for c in clocks]
    correlations = np.corrcoef(np.array(traits).T, [c.minutes for c in clocks])[-1, :-1]
    assert np.abs(correlations).max() < 0.08


def test_a_folder_of_images_with_its_table(tmp_path: Path) -> None:
    table = write_clocks(tmp_path / "new" / "clocks", count=20, size=16, seed=5)
    assert table == tmp_path / "new" / "clocks" / "clocks.csv"
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["minutes", "path", "split"]
    assert Counter(row["split"] for row in rows) == {"train": 14, "val": 2, "test": 4}
    images, minutes = draw_clocks(20, size=16, seed=5)
    for row, image, target in zip(rows, images, minutes, strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(table.parent / row["path"])), image)
        assert float(row["minutes"]) == target


def test_more_images_keep_the_first_ones_and_their_splits(tmp_path: Path) -> None:
    few, more = (write_clocks(tmp_path / str(count), count=count, size=16, label="age").read_text() for count in (4, 11))
    assert few.startswith("age,path,split\n")
    assert more.startswith(few)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count=0 is not a whole number of 1 or more"),
        ({"count": 2.5}, "count=2.5 is not a whole number of 1 or more"),
        ({"size": 8}, "size=8 is not a whole number of 16 or more"),
        ({"seed": -1}, "seed=-1 is not a whole number of 0 or more"),
        ({"label": "path"}, "label='path' is also the name of another column"),
        ({"label": "a,b"}, "label='a,b' is not a name for a column"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        write_clocks(tmp_path / "folder", **{"count": 2, **options})
    assert not (tmp_path / "folder").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written to .* choose another folder"):
        write_clocks(tmp_path / "file" / "clocks", count=1)
