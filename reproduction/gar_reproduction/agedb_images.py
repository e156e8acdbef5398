"""The paper's protocol for AgeDB: its numbers, and its table of images. Light to import: the command line shows these numbers."""

import os
from typing import TYPE_CHECKING

from gar.vision.defaults import LEARNING_RATES, SEEDS, WEIGHT_DECAYS

if TYPE_CHECKING:
    from gar.vision.images import ImageTable

RATES = LEARNING_RATES
DECAYS = WEIGHT_DECAYS[1:]
__all__ = ["SEEDS", "agedb_table"]
EPOCHS, BATCH_SIZE = 400, 256
"""Of a network, from scratch or by Rank-N-Contrast."""
ENCODER_RATE, ENCODER_DECAY, TEMPERATURE = 0.5, 1e-4, 2.0
"""Of Rank-N-Contrast: the temperature is the paper's, the others are the defaults of its published script."""


def agedb_table(home: str | os.PathLike[str] | None = None) -> "ImageTable":
    """The list of images in the data folder; none of them is opened. An error says how to get a list that is not there."""
    from gar.vision.images import read_images
    from gar_reproduction.data.home import located

    (file,) = located("agedb", home=home)
    return read_images(file, target="age")
