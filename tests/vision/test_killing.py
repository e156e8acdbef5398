"""A run that is killed resumes, and ends with the weights of one that was not, bit for bit."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gar.vision import ImageTable, Machine, train_images
from tests.vision.interrupted import MOMENTS, SETTINGS
from tests.vision.test_training import assert_same_weights

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.usefixtures("small")
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks for open files in /proc")
def test_killed_twice(clocks: Path, table: ImageTable, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for moment in MOMENTS:
        command = [sys.executable, "-m", "tests.vision.interrupted", str(clocks), str(killed), moment]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert torch.load(killed / "last.ckpt", weights_only=True)["epoch"] == 0
    assert list(killed.glob("*.tmp"))
    results = [train_images(table, SETTINGS, folder, machine=Machine(accelerator="cpu")) for folder in (killed, whole)]
    assert results[0] == results[1]
    for name in ("last.ckpt", "best.ckpt"):
        assert_same_weights(killed / name, whole / name)
    assert (killed / "history.csv").read_bytes() == (whole / "history.csv").read_bytes()
    assert not list(killed.glob("*.tmp"))
