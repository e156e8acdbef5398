"""Work in child processes, so that a crash or a hang ends the child, and is counted."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CRASH = "crash"
SECONDS = 60.0
"""A part of the work that takes longer hangs."""


def outcomes(work: Callable[[Sequence[T]], Counter[str]], items: Sequence[T], *, at_once: int) -> Counter[str]:
    """Return how often each outcome occurred. A part whose child crashes is tried again, one item after another."""
    parts = [items[start : start + at_once] for start in range(0, len(items), at_once)]
    found: Counter[str] = Counter()
    while parts:
        parts, crashed = _run(work, parts, found)
        if len(crashed) == 1:
            found[CRASH] += 1
        elif crashed:
            parts = [*([item] for item in crashed), *parts]
    return found


def _run(
    work: Callable[[Sequence[T]], Counter[str]], parts: Sequence[Sequence[T]], found: Counter[str]
) -> tuple[list[Sequence[T]], Sequence[T]]:
    """Work on the parts until a child crashes or hangs; return the parts that follow, and the one at which it did."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for index, part in enumerate(parts):
            future: Future[Counter[str]] = pool.submit(work, part)
            try:
                found += future.result(timeout=SECONDS)
            except (BrokenProcessPool, TimeoutError):
                for process in (pool._processes or {}).values():
                    process.kill()
                return list(parts[index + 1 :]), part
    return [], []


def living(group: int) -> list[int]:
    """Return the processes of a group, the first started first, that have not ended; those that nobody has waited for have."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(path.parent.name))
    return sorted(found)
