"""The examples run, on a fraction of their work."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_benchmarks_run() -> None:
    command = [sys.executable, "-m", "benchmarks.losses", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "RankSim" in done.stdout
