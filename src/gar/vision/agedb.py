"""The paper's protocol for AgeDB: its numbers, and its table of images. Light to import: the command line shows these numbers."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gar.vision.images import ImageTable

RATES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
DECAYS = (1e-6, 1e-5, 1e-4, 1e-3)
PROBE_DECAYS = (0.0, *DECAYS)
SEEDS = (1, 2, 3, 4, 5)
EPOCHS, BATCH_SIZE = 400, 256
"""Of a network, from scratch or by Rank-N-Contrast."""
ENCODER_RATE, ENCODER_DECAY, TEMPERATURE = 0.5, 1e-4, 2.0
"""Of Rank-N-Contrast: the temperature is the paper's, the others are the defaults of its published script."""


def agedb_table(home: str | os.PathLike[str] | None = None) -> "ImageTable":
    """The list of images in the data folder; none of them is opened. An error says how to get a list that is not there."""
    from gar.datasets.home import located
    from gar.vision.images import read_images

    (file,) = located("agedb", home=home)
    return read_images(file)
