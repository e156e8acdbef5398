"""Try everything, and write the record and the table of docs/what-was-tried.md: ``python -m benchmarks.fuzz``, or ``make fuzz``."""

import time
from importlib import import_module

from benchmarks.fuzz import MODULES, Attempt, write

if __name__ == "__main__":
    found: list[Attempt] = []
    for name in MODULES:
        start = time.perf_counter()
        for attempt in import_module(f"benchmarks.fuzz.{name}").attempts():
            found.append(attempt)
            print(f"{time.perf_counter() - start:5.0f} s", attempt, flush=True)
    write(found)
    if any(sum(attempt[2:]) for attempt in found):
        raise SystemExit("something ended badly; see the table of docs/what-was-tried.md")
