"""The examples of training on several processes run, and give what one process gives."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"
HALF_TORCHVISION = Path(__file__).parent / "half_torchvision"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
THREADS_AFTERWARDS = """
import gc, runpy
from pathlib import Path
gc.disable()  # or a collection may come by chance
runpy.run_path({example!r}, run_name="__main__")
print("threads:", *((task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()), flush=True)
"""
pytestmark = pytest.mark.xdist_group("parallel examples")


def output_of(*command: str, **environment: str) -> str:
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def output_of_lightning(*command: str) -> str:
    if find_spec("lightning") is None:
        pytest.skip("the extra 'lightning' is not installed")
    return output_of(*command, PYTHONPATH=str(HALF_TORCHVISION))


@pytest.mark.parametrize("name", ["ddp_torchrun", "fsdp2"])
def test_torchrun(name: str) -> None:
    if name == "fsdp2" and not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip(f"PyTorch {torch.__version__} does not shard networks on the CPU")
    shown = output_of(*TORCHRUN, "2", str(EXAMPLES / f"{name}.py"), "--steps", "20", "--rows", "61")
    assert len(set(re.findall(r"rank \d: .* loss (\S+)", shown))) == 1  # the same on both ranks
    (difference,) = re.findall(r"largest difference to one process with all rows: (\S+)", shown)
    assert float(difference) < 1e-9


def threads_after(name: str, folder: Path) -> str:
    """The path of a program that runs an example and then prints which threads it has."""
    if not Path("/proc/self/task").exists():
        pytest.skip("this system does not list the threads of a process")
    program = folder / "threads.py"
    program.write_text(THREADS_AFTERWARDS.format(example=str(EXAMPLES / f"{name}.py")))
    return str(program)


def assert_no_thread_of_gloo(shown: str) -> None:
    """One that is left when Python ends may abort the process, but so rarely that running the examples does not show it."""
    threads = re.findall(r"threads: (.*)", shown)
    assert threads  # of one process at least: Lightning may end the other one before it prints
    assert not any("gloo" in line for line in threads)


def test_threads_end_with_torchrun(tmp_path: Path) -> None:
    program = threads_after("ddp_torchrun", tmp_path)
    assert_no_thread_of_gloo(output_of(*TORCHRUN, "2", program, "--steps", "2", "--rows", "20"))


def test_threads_end_with_lightning(tmp_path: Path) -> None:
    program = threads_after("lightning_module", tmp_path)
    assert_no_thread_of_gloo(output_of_lightning(program, "--epochs", "1", "--devices", "2"))


def test_lightning() -> None:
    program = str(EXAMPLES / "lightning_module.py")
    alone, together = (
        re.findall(r"loss (\S+), correlation on validation rows (\S+)", output_of_lightning(program, *options))
        for options in (["--epochs", "1"], ["--epochs", "1", "--devices", "2"])
    )
    assert len(alone) == 1
    assert [float(value) for value in together[0]] == pytest.approx([float(value) for value in alone[0]], abs=2e-3)
