"""Exchange between processes, by torch.distributed: what losses of a joined batch need."""

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from gar.errors import InputError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup as _Group

    ProcessGroup = _Group | Literal["world"]


def check_group(group: "ProcessGroup | None") -> None:
    """Raise if a group is given that is unknown, or before torch.distributed is initialised."""
    if group is None:
        return
    if isinstance(group, str) and group != "world":
        raise InputError(f"process_group={group!r} is unknown; pass 'world', a torch.distributed.ProcessGroup or None")
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise InputError(
            "process_group was given, but torch.distributed is not initialised; call torch.distributed.init_process_group "
            "first (torchrun and Lightning do), or leave process_group=None for a loss of the local batch"
        )


def world_size(group: "ProcessGroup") -> int:
    """Return the number of ranks."""
    return torch.distributed.get_world_size(handle(group))


def gather(values: Tensor, group: "ProcessGroup") -> Tensor:
    """Return ``values`` of every rank, stacked along a new first dimension, equal on all ranks. One collective call."""
    values = values.contiguous()
    gathered = [torch.empty_like(values) for _ in range(world_size(group))]
    torch.distributed.all_gather(gathered, values, group=handle(group))
    return torch.stack(gathered)


def shared_generator(generator: torch.Generator | None, group: "ProcessGroup", device: torch.device) -> torch.Generator:
    """Return a generator of the same random numbers on every rank, seeded by that of the first one."""
    check_group(group)
    source = torch.default_generator if generator is None else generator
    seed = torch.randint(2**62, (1,), generator=source, device=source.device).to(device)
    return torch.Generator(device).manual_seed(int(gather(seed, group)[0]))


def handle(group: "ProcessGroup") -> "_Group | None":
    """Return the group as torch.distributed takes it, which calls the world None."""
    return None if isinstance(group, str) else group
