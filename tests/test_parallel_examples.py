"""The examples of training on several processes run, and give what one process gives."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
HALF_TORCHVISION = Path(__file__).parent / "half_torchvision"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
THREADS_AFTERWARDS = """
import gc
from pathlib import Path
from ddp_torchrun import run_in_group, train_together
gc.disable()  # or a collection may come by chance
run_in_group(train_together, None)
print("threads:", *((task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()))
"""
pytestmark = pytest.mark.xdist_group("parallel examples")


def output_of(*command: str, path: Path = HALF_TORCHVISION) -> str:
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["ddp_torchrun", "fsdp2"])
def test_torchrun(name: str) -> None:
    shown = output_of(*TORCHRUN, "2", str(EXAMPLES / f"{name}.py"), "--steps", "20", "--rows", "61")
    assert len(set(re.findall(r"rank \d: .* loss (\S+)", shown))) == 1  # the same on both ranks
    (difference,) = re.findall(r"largest difference to one process with all rows: (\S+)", shown)
    assert float(difference) < 1e-9


def test_threads_of_gloo_end_with_the_group(tmp_path: Path) -> None:
    """One that is left when Python ends may abort the process, but so rarely that running the examples does not show it."""
    if not Path("/proc/self/task").exists():
        pytest.skip("this system does not list the threads of a process")
    script = tmp_path / "threads.py"
    script.write_text(THREADS_AFTERWARDS)
    shown = output_of(*TORCHRUN, "1", str(script), "--steps", "2", "--rows", "20", path=EXAMPLES)
    (threads,) = re.findall(r"threads: (.*)", shown)
    assert "gloo" not in threads


def test_lightning() -> None:
    if find_spec("lightning") is None:
        pytest.skip("the extra 'lightning' is not installed")
    alone, together = (
        re.findall(r"loss (\S+), correlation on validation rows (\S+)", output_of(str(EXAMPLES / "lightning_module.py"), *options))
        for options in (["--epochs", "1"], ["--epochs", "1", "--devices", "2"])
    )
    assert len(alone) == 1
    assert [float(value) for value in together[0]] == pytest.approx([float(value) for value in alone[0]], abs=2e-3)
