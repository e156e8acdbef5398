"""Small labelled images without a licence: dials whose hands show a number of minutes.

A dial has six hands, all equally wide. At 0 minutes they have no width, at 60 they cover the whole face: the target is the share of
the face that is covered. That share survives the paper's augmentation. A flip or a change of size or proportions maps the face and
its hands alike. A crop still shows it, because all hands are equal. Hands are much darker than the face, so neither a change of
colours nor conversion to greyscale hides them. Everything else varies and is uninformative: position, size, rotation, colours,
rim, background, brightness and noise.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gar.errors import InputError
from gar.files import write_whole
from gar.validation import whole_number

HANDS = 6
_FULL = 60.0
_OVERSAMPLING = 3
"""Points per pixel in each direction, whose mean is its colour: edges are smooth, and a hand's width shows to a part of a pixel."""

_SPLITS = ("train",) * 7 + ("val",) + ("test",) * 2
"""The splits of every ten images: 70, 10 and 20 percent, however many images there are."""

Colour = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A dial. Lengths are shares of the image's side, colours go from 0 to 1.

    Args:
        minutes: the target that it shows, 0 to 60.
        centre: horizontal and vertical position.
        radius: of the face.
        turn: direction of the first hand, in radians.
        rim: width of the ring around the face, as a share of the radius; it has the colour of the hands.
        face: its colour.
        hands: their colour.
        ground: colour of the background.
        texture: of the background, a cosine: periods across, periods down, phase in periods, and amplitude.
    """

    minutes: float
    centre: tuple[float, float] = (0.5, 0.5)
    radius: float = 0.4
    turn: float = 0.0
    rim: float = 0.1
    face: Colour = (0.9, 0.9, 0.9)
    hands: Colour = (0.1, 0.1, 0.1)
    ground: Colour = (0.5, 0.5, 0.5)
    texture: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @staticmethod
    def draw(generator: np.random.Generator) -> "Clock":
        """Return a random dial; minutes are uniformly distributed, to a tenth."""
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
            texture=(*uniform(-6.0, 6.0, 2).tolist(), uniform(), uniform(0.0, 0.2)),
        )

    def painted(self, size: int) -> np.ndarray:
        """Return its image ``(size, size, 3)``, with values from 0 to 1."""
        points = (np.arange(size * _OVERSAMPLING) + 0.5) / (size * _OVERSAMPLING)
        down, across = np.meshgrid(points, points, indexing="ij")
        x, y = across - self.centre[0], down - self.centre[1]
        distance = np.hypot(x, y) / self.radius
        turns = (np.arctan2(y, x) - self.turn) * HANDS / (2.0 * np.pi)
        beside = np.abs(turns - np.round(turns))  # how far from the middle of the nearest hand: 1/2 is half-way to the next
        right, below, phase, amplitude = self.texture
        texture = amplitude * np.cos(2.0 * np.pi * (right * across + below * down + phase))
        image = np.clip(np.array(self.ground) + texture[..., None], 0.0, 1.0)
        image[distance < 1.0 + self.rim] = self.hands
        image[distance < 1.0] = self.face
        image[(distance < 1.0) & (2.0 * beside < self.minutes / _FULL)] = self.hands
        return np.asarray(image.reshape(size, _OVERSAMPLING, size, _OVERSAMPLING, 3).mean((1, 3)))


def draw_clocks(count: int, *, size: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images ``(count, size, size, 3)`` of bytes, and the minutes they show, ``(count,)``, uniformly from 0 to 60.

    An image depends on ``(seed, index)`` alone: a larger count keeps the first images.

    Args:
        count: number of images.
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
    for index in range(count):
        generator = np.random.default_rng([seed, index])
        clock = Clock.draw(generator)
        noisy = generator.normal(clock.painted(size), generator.uniform(0.0, 0.06))
        images[index], minutes[index] = np.round(255.0 * np.clip(noisy, 0.0, 1.0)), clock.minutes
    return images, minutes


def write_clocks(
    folder: str | os.PathLike[str], *, count: int = 1000, size: int = 64, seed: int = 0, label: str = "minutes"
) -> Path:
    """Write the images of :func:`draw_clocks` as PNG files and a table of them, and return the table's path.

    ``clocks.csv`` has the columns of AgeDB's list: the label, the ``path`` of the image relative to the table, and its ``split``:
    of every ten images seven are ``train``, one is ``val`` and two are ``test``. It is written last, when all images are there.

    Args:
        folder: it is created if needed; files of the same names are replaced.
        count: number of images.
        size: their side in pixels, 16 or more.
        seed: of all that is random.
        label: the name of the label's column.
    """
    if label in ("path", "split"):
        raise InputError(f"label={label!r} is also the name of another column; choose another name")
    if not label.isidentifier():
        raise InputError(f"label={label!r} is not a name for a column; use letters, digits and underscores, such as 'minutes'")
    from PIL import Image

    images, minutes = draw_clocks(count, size=size, seed=seed)
    table, lines = Path(folder) / "clocks.csv", [f"{label},path,split"]
    try:
        (table.parent / "images").mkdir(parents=True, exist_ok=True)
        for index, image in enumerate(images):
            name = f"images/{index:05d}.png"
            Image.fromarray(image).save(table.parent / name)
            lines.append(f"{minutes[index]},{name},{_SPLITS[index % len(_SPLITS)]}")
        write_whole(table, "\n".join([*lines, ""]).encode())
    except OSError as error:
        raise InputError(f"folder={os.fspath(folder)!r} cannot be written to ({error}); choose another folder") from error
    return table
