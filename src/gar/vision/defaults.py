"""Names and default grids that the command line shows, those of the paper; light to import."""

from gar.registry import LOSSES

LEARNING_RATES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
WEIGHT_DECAYS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
SEEDS = (1, 2, 3, 4, 5)
PAPER_VIEWS = 2
"""Augmented views of an image in a batch of the paper; each counts as a row."""
AUGMENTATIONS = ("paper", "light")
"""Kinds of augmented views, which ``gar.vision.views.augmentation`` describes."""


def probe_losses() -> tuple[str, ...]:
    """Return the names of losses that can train a linear probe: those whose only input is predictions, as features are frozen."""
    return tuple(name for name, spec in LOSSES.items() if spec.inputs == ("pred",))
