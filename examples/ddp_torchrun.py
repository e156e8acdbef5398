"""Train over several processes with one loss over all their rows.

    torchrun --nproc-per-node 2 examples/ddp_torchrun.py

Each process has its own rows, and not the same number of them. ``process_group="world"`` makes the loss that of the joined
batch: every step sends nine more numbers, whatever the size of the batch, and the gradients that DistributedDataParallel averages
are those of one process with all rows. The last line compares with exactly that.
"""

import argparse
import gc
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gar import GARLoss


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).double()


def make_rows(rows: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 8, dtype=torch.float64, generator=generator)
    return x, (x[:, :1] * x[:, 1:2]).sin() + x[:, 2:3]


def train(net: nn.Module, loss: GARLoss, x: Tensor, y: Tensor, steps: int) -> float:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
    return value.item()


def read_arguments(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rows", type=int, default=500, help="of all processes together")
    return parser.parse_args()


def train_together(rows: int, steps: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = make_rows(rows)
    first, last = (rows * index**2 // world**2 for index in (rank, rank + 1))  # shards of different sizes
    net = DistributedDataParallel(make_net())
    value = train(net, GARLoss(process_group="world"), x[first:last], y[first:last], steps)
    print(f"rank {rank}: {last - first} rows, loss {value:.6f}", flush=True)
    if rank == 0:
        alone = make_net()
        train(alone, GARLoss(), x, y, steps)
        pairs = zip(net.module.parameters(), alone.parameters(), strict=True)
        difference = max((one - other).abs().max().item() for one, other in pairs)
        print(f"largest difference to one process with all rows: {difference:.1e}", flush=True)


def run_in_group(work: Callable[[int, int], None], about: str | None) -> None:
    arguments = read_arguments(about)
    dist.init_process_group("gloo")
    work(arguments.rows, arguments.steps)
    # The group must end before Python does: a thread of gloo that waits for Python's lock just then hangs or aborts the process. It
    # ends when nothing holds it, so networks go first (in circles of references, hence the collection), and torch.distributed.nn is
    # imported above: later, its functions would take the open group as the default of an argument, for good.
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    run_in_group(train_together, __doc__)
