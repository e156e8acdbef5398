"""Two processes that share a batch compute the loss and the gradients of one process that has it all."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from tests.vision.sharded import one_step

ROOT = Path(__file__).parent.parent.parent
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")


@pytest.mark.parametrize("launcher", [(), TORCHRUN], ids=["Lightning", "torchrun"])
def test_two_processes_equal_one(clocks: Path, tmp_path: Path, launcher: tuple[str, ...]) -> None:
    """Of 42 rows two processes evaluate 21 each; metrics are of all of them, too."""
    command = [sys.executable, *launcher, "-m", "tests.vision.sharded", str(clocks), str(tmp_path / "found.pt")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shared = torch.load(tmp_path / "found.pt", weights_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        alone, _ = one_step(str(clocks), 1)
    torch.testing.assert_close(shared["loss"], alone["loss"], rtol=1e-9, atol=1e-9)
    assert shared["gradients"].keys() == alone["gradients"].keys()
    for name, gradient in alone["gradients"].items():
        torch.testing.assert_close(shared["gradients"][name], gradient, rtol=1e-6, atol=1e-9)
    assert shared["metrics"] == pytest.approx(alone["metrics"], rel=1e-6)
