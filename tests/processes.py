"""Groups of real processes that talk through gloo on this machine. They are started once and then take one task after another."""

import gc
import queue
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils._python_dispatch import TorchDispatchMode

from gar.errors import InputError

PATIENCE = 120.0


class Ranks:
    """A process group of ``world`` processes.

    Args:
        world: how many.
        folder: an empty one, where they meet.
    """

    def __init__(self, world: int, folder: Path) -> None:
        context = mp.get_context("spawn")
        self.world = world
        self._tasks = [context.Queue() for _ in range(world)]
        self._results = context.Queue()
        store = str(folder / "store")
        arguments = [(rank, world, store, self._tasks[rank], self._results) for rank in range(world)]
        self._processes = [context.Process(target=_serve, args=one, daemon=True) for one in arguments]
        for process in self._processes:
            process.start()

    def run(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """``task(rank, world, *arguments)`` of every rank, in their order."""
        for tasks in self._tasks:
            tasks.put((task, arguments))
        found: dict[int, Any] = {}
        while len(found) < self.world:
            try:
                rank, result, error = self._results.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"ranks {set(range(self.world)) - set(found)} did not answer") from None
            assert error is None, error
            found[rank] = result
        return [found[rank] for rank in range(self.world)]

    def close(self) -> None:
        for tasks in self._tasks:
            tasks.put(None)
        for process in self._processes:
            process.join(PATIENCE)
            process.kill()


def _serve(rank: int, world: int, store: str, tasks: Any, results: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    while (item := tasks.get()) is not None:
        task, arguments = item
        try:
            torch.manual_seed(0)
            results.put((rank, task(rank, world, *arguments), None))
        except Exception:
            results.put((rank, None, traceback.format_exc()))
    gc.collect()  # networks go before their group: see examples/ddp_torchrun.py
    dist.destroy_process_group()


def refusal(call: Callable[[], object]) -> str:
    """Return the message of the error that a call raises."""
    try:
        value = call()
    except InputError as error:
        return str(error)
    return f"no error: {value}"


class Traffic(TorchDispatchMode):
    """Counts what collectives send: number of calls and bytes that this rank gives away, whoever calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.calls.append(func.overloadpacket.__name__)
            sent = args[1] if "allgather" in self.calls[-1] else args[0]
            self.bytes += sum(t.nbytes for t in torch.utils._pytree.tree_leaves(sent) if isinstance(t, torch.Tensor))
        return func(*args, **(kwargs or {}))
