"""Losses and default grids of a linear probe, those of the paper; light to import, because the command line shows them."""

from gar.registry import LOSSES

LEARNING_RATES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
WEIGHT_DECAYS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
SEEDS = (1, 2, 3, 4, 5)


def probe_losses() -> tuple[str, ...]:
    """Return the names of losses that can train a linear probe: those whose only input is predictions, as features are frozen."""
    return tuple(name for name, spec in LOSSES.items() if spec.inputs == ("pred",))
