"""Faults on purpose: damaged files, crafted models, killed processes, writers that meet, counted by what they did.

Each module has ``attempts()``, which yields one :class:`Attempt` for every kind of fault; ``python -m benchmarks.fuzz`` runs them
all and writes the table of the page.
"""

from typing import NamedTuple


class Attempt(NamedTuple):
    """What was tried, how many times, and how often it ended badly."""

    what: str
    times: int
    silent_changes: int = 0
    """Another result than the right one, without an error."""
    tracebacks: int = 0
    """An exception that is not one clear sentence."""
    crashes: int = 0
    """A process that ended by a signal, or had to be ended since it hung."""
    lost_or_mixed: int = 0
    """A result that is gone, half there, or made of two."""
    processes_left: int = 0
    """Processes that outlived the one that started them."""
