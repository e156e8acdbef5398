"""Run what has no record yet: ``GAR_DATA_HOME=... python -m benchmarks.against [METHOD or TABLE ...] [--held-out]``.

Records are one JSON file per method and table in ``benchmarks/records/against``: the four scores on the test rows, and the seconds
of processor time of one thread, which another process on the machine does not change much.
"""

import argparse
import time
from typing import Any

from benchmarks.against.methods import ALPHA_METHODS, METHODS
from benchmarks.against.tables import DEVELOPMENT, HELD_OUT, NAMES, table_of
from benchmarks.recording import run_missing, scores

FOLDER = "against"


def measure(name: str, method: str) -> dict[str, Any]:
    """Train one method on one table and return its record."""
    table, start = table_of(name), time.process_time()
    pred = (METHODS | ALPHA_METHODS)[method](table)
    seconds, target = time.process_time() - start, table.y[table.test]
    return {
        "method": method,
        "table": name,
        "rows": len(table.y) - len(table.test),
        "test_rows": len(table.test),
        **scores(pred, target),
        "label_sd": float(target.std()),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="METHOD or TABLE", choices=[*METHODS, *ALPHA_METHODS, *NAMES, []])
    parser.add_argument("--held-out", action="store_true", help="the tables that nothing is tuned on, instead of the others")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    methods = [word for word in (*METHODS, *ALPHA_METHODS) if word in given.words] or list(METHODS)
    names = [word for word in NAMES if word in given.words] or list(HELD_OUT if given.held_out else DEVELOPMENT)
    run_missing(FOLDER, [(name, method) for method in methods for name in names], measure, given.processes)


if __name__ == "__main__":
    main()
