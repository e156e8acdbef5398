"""The examples run, on a fraction of their work."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_squared_sine(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "squared_sine.py"), "--epochs", "3", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "24 of 24 networks trained" in done.stdout
    assert "GAR" in done.stdout
    assert (tmp_path / "squared_sine.png").read_bytes().startswith(b"\x89PNG")


def test_benchmarks_run() -> None:
    command = [sys.executable, "-m", "benchmarks.losses", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "RankSim" in done.stdout
