"""How ratios are measured: both sides take turns in one run, so that a busy machine slows both, and the best turn counts."""

import time
from collections.abc import Callable, Sequence


def seconds_per_call(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def best_of_turns(calls: Sequence[Callable[[], object]], *, turns: int = 9, budget: float = 0.05) -> list[float]:
    """The least time of each call, measured in turns of about ``budget`` seconds."""
    counts = []
    for call in calls:
        call()  # warm up: memory, caches, compilation
        counts.append(max(1, int(budget / max(seconds_per_call(call, 2), 1e-7))))
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for k, (call, count) in enumerate(zip(calls, counts, strict=True)):
            best[k] = min(best[k], seconds_per_call(call, count))
    return best


def in_words(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def print_table(rows: Sequence[tuple[str, str, str, str]], headings: tuple[str, str, str, str]) -> None:
    """Four columns, as a table that is readable in a terminal and in Markdown."""
    widths = [max(len(row[k]) for row in (headings, *rows)) for k in range(4)]
    for row in (headings, tuple("-" * width for width in widths), *rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
