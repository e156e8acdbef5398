"""Small labelled images that anyone may have: dials whose hands show a number.

A dial has six hands, all equally wide, and the number says how wide: at 0 minutes they have no width, at 60 they close up and
cover the whole face. So the number is the share of the face that is covered. That share is chosen because it survives what the
paper's training does to images. A flip, a change of size or of proportions maps the face and its hands alike and keeps the share.
A crop still shows it, for every hand tells the same. Hands are darker than the face by far, so neither a change of colours nor
greying hides them. Everything else varies and tells nothing: place, size, turn, colours, rim, background, brightness and noise.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gar.errors import InputError, whole_number
from gar.files import write_whole

HANDS = 6
_FULL = 60.0
_OVERSAMPLING = 3
"""Points per pixel in each direction, whose mean is its colour: edges are smooth, and a hand's width shows to a part of a pixel."""

_SPLITS = ("train",) * 7 + ("val",) + ("test",) * 2
"""The split of images, ten by ten: 70, 10 and 20 percent, however many there are."""

Colour = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A dial. Lengths are shares of the image's side, colours go from 0 to 1.

    Args:
        minutes: the number that it shows, 0 to 60.
        centre: across and down.
        radius: of the face.
        turn: direction of the first hand, in radians.
        rim: width of the ring around the face, as a share of the radius; it has the colour of the hands.
        face: its colour.
        hands: their colour.
        ground: the colour around it.
        waves: a texture of the ground: periods across, periods down, phase in periods, and height.
    """

    minutes: float
    centre: tuple[float, float] = (0.5, 0.5)
    radius: float = 0.4
    turn: float = 0.0
    rim: float = 0.1
    face: Colour = (0.9, 0.9, 0.9)
    hands: Colour = (0.1, 0.1, 0.1)
    ground: Colour = (0.5, 0.5, 0.5)
    waves: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @staticmethod
    def draw(generator: np.random.Generator) -> "Clock":
        """A random one: any number of minutes is equally likely, to a tenth."""
        uniform = generator.uniform
        brightness = uniform(0.7, 1.0)

        def colour(low: float, high: float) -> Colour:
            red, green, blue = (brightness * uniform(low, high, 3)).tolist()
            return red, green, blue

        return Clock(
            minutes=round(uniform(0.0, _FULL), 1),
            centre=(uniform(0.4, 0.6), uniform(0.4, 0.6)),
            radius=uniform(0.25, 0.4),
            turn=uniform(0.0, 2.0 * np.pi),
            rim=uniform(0.05, 0.2),
            face=colour(0.7, 1.0),
            hands=colour(0.0, 0.3),
            ground=colour(0.2, 0.8),
            waves=(*uniform(-6.0, 6.0, 2).tolist(), uniform(), uniform(0.0, 0.2)),
        )

    def painted(self, size: int) -> np.ndarray:
        """Its image ``(size, size, 3)``, from 0 to 1."""
        points = (np.arange(size * _OVERSAMPLING) + 0.5) / (size * _OVERSAMPLING)
        down, across = np.meshgrid(points, points, indexing="ij")
        x, y = across - self.centre[0], down - self.centre[1]
        distance = np.hypot(x, y) / self.radius
        turns = (np.arctan2(y, x) - self.turn) * HANDS / (2.0 * np.pi)
        beside = np.abs(turns - np.round(turns))  # how far from the middle of the nearest hand: 1/2 is half-way to the next
        right, below, phase, height = self.waves
        texture = height * np.cos(2.0 * np.pi * (right * across + below * down + phase))
        image = np.clip(np.array(self.ground) + texture[..., None], 0.0, 1.0)
        image[distance < 1.0 + self.rim] = self.hands
        image[distance < 1.0] = self.face
        image[(distance < 1.0) & (2.0 * beside < self.minutes / _FULL)] = self.hands
        fine = (size, _OVERSAMPLING, size, _OVERSAMPLING, 3)
        return np.asarray(image.reshape(fine).mean((1, 3)))


def draw_clocks(count: int, *, size: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images ``(count, size, size, 3)`` of bytes, and the minutes they show, ``(count,)``, evenly spread from 0 to 60.

    An image belongs to ``(seed, place)``: the first of many are those of few.

    Args:
        count: how many.
        size: their side in pixels, 16 or more.
        seed: of all that is random.

    Example:
        >>> images, minutes = draw_clocks(3, size=32)
        >>> images.shape, minutes.tolist()
        ((3, 32, 32, 3), [16.2, 33.4, 24.1])
    """
    whole_number(count, "count")
    whole_number(size, "size", least=16)
    whole_number(seed, "seed", least=0)
    images, minutes = np.empty((count, size, size, 3), np.uint8), np.empty(count)
    for place in range(count):
        generator = np.random.default_rng([seed, place])
        clock = Clock.draw(generator)
        noisy = generator.normal(clock.painted(size), generator.uniform(0.0, 0.06))
        images[place], minutes[place] = np.round(255.0 * np.clip(noisy, 0.0, 1.0)), clock.minutes
    return images, minutes


def write_clocks(
    folder: str | os.PathLike[str], *, count: int = 1000, size: int = 64, seed: int = 0, label: str = "minutes"
) -> Path:
    """Write the images of :func:`draw_clocks` as PNG files, and a table of them; returns the table's path.

    ``clocks.csv`` has the columns of AgeDB's list: the label, the ``path`` of the image as seen from the table, and its ``split``:
    of every ten images seven are ``train``, one is ``val`` and two are ``test``. It is written last, so it is there only if all
    images are.

    Args:
        folder: it is made if need be; files of the same names are replaced.
        count: how many images.
        size: their side in pixels, 16 or more.
        seed: of all that is random.
        label: the name of the label's column.
    """
    _check_label(label)
    images, minutes = draw_clocks(count, size=size, seed=seed)
    names = [f"images/{place:05d}.png" for place in range(count)]
    table = Path(folder) / "clocks.csv"
    try:
        (table.parent / "images").mkdir(parents=True, exist_ok=True)
        for name, image in zip(names, images, strict=True):
            _write_image(table.parent / name, image)
        lines = [f"{m},{name},{_SPLITS[place % len(_SPLITS)]}" for place, (m, name) in enumerate(zip(minutes, names, strict=True))]
        write_whole(table, "\n".join([f"{label},path,split", *lines, ""]).encode())
    except OSError as error:
        raise InputError(f"folder={os.fspath(folder)!r} cannot be written to ({error}); choose another folder") from error
    return table


def _write_image(path: Path, image: np.ndarray) -> None:
    from PIL import Image

    Image.fromarray(image).save(path)


def _check_label(label: str) -> None:
    if label in ("path", "split"):
        raise InputError(f"label={label!r} is also the name of another column; choose another name")
    if not label.isidentifier():
        raise InputError(f"label={label!r} is not a name for a column; use letters, digits and underscores, such as 'minutes'")
