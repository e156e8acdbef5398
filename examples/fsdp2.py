"""Train a sharded network (FSDP2, ``fully_shard``) with one loss over the rows of all processes.

    torchrun --nproc-per-node 2 examples/fsdp2.py

Each process holds a part of every weight and a part of the rows. ``process_group="world"`` makes the loss that of the joined
batch. FSDP2 averages gradients as DistributedDataParallel does, so the loss needs no other scale.
"""

import os

import torch
import torch.distributed as dist
from ddp_torchrun import make_net, make_rows, run_in_group, train  # type: ignore[import-not-found]  # in this folder
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from gar import GARLoss


def train_sharded(rows: int, steps: int) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = (table.tensor_split(world)[rank] for table in make_rows(rows))
    net = make_net()
    mesh = init_device_mesh("cpu", (world,))
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    value = train(net, GARLoss(process_group="world"), x, y, steps)
    held = sum(p.to_local().numel() for p in net.parameters() if isinstance(p, DTensor))
    print(f"rank {rank}: {len(x)} rows, {held} of {sum(p.numel() for p in net.parameters())} weights, loss {value:.6f}", flush=True)
    whole = [p.full_tensor() for p in net.parameters() if isinstance(p, DTensor)]
    if rank == 0:
        alone = make_net()
        train(alone, GARLoss(), *make_rows(rows), steps)
        difference = max((one - other).abs().max().item() for one, other in zip(whole, alone.parameters(), strict=True))
        print(f"largest difference to one process with all rows: {difference:.1e}", flush=True)


if __name__ == "__main__":
    run_in_group(train_sharded, __doc__)
    # DTensor keeps its meshes in a cache, so the group and gloo's threads outlive destroy_process_group. Python must not be taken
    # down under them: a thread that lets go of its last tensor just then aborts the process. Everything is printed by now.
    os._exit(0)
