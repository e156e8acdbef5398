"""Exchange between processes, by torch.distributed: what losses of a joined batch need."""

import zlib
from typing import TYPE_CHECKING, Any, Literal, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad

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
    gathered = values.new_empty(world_size(group), *values.shape)
    torch.distributed.all_gather(list(gathered.unbind()), values.contiguous(), group=handle(group))
    return gathered


class Agreement:
    """A context in which every rank of a group prepares one message: either all messages are exchanged, or all ranks raise.

    A rank that raised before its message was sent would leave the others waiting for it. So it sends a refusal instead, and then
    its reason. A collective needs messages of one size, which a rank with a wrong batch cannot know. So they have the size of the
    largest that all ranks have agreed on before; the first larger one costs a second collective. What was gathered is equal on
    all ranks, so they always know the same size. The first value of a message is a checksum of its layout, or a refusal.

    Args:
        group: whose ranks take part.
        like: a tensor on the device of the messages.
    """

    def __init__(self, group: "ProcessGroup", like: object) -> None:
        check_group(group)
        self._group, self._device = group, like.device if isinstance(like, Tensor) else None
        self._key: Any = torch.distributed.group.WORLD if isinstance(group, str) else group
        self._is_sent = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not self._is_sent:
            self._exchanged(_REFUSED, torch.empty(0, dtype=torch.float64, device=self._device))
            self._statements(f"{_REFUSAL}{error}")

    def gather(self, values: Tensor, layout: str) -> Tensor:
        """Return ``values (n,)`` of every rank, ``(ranks, n)`` in double precision, if all of them have this layout."""
        found = self._exchanged(zlib.crc32(layout.encode()), values)
        if found is None:
            statements = self._statements(f"has {layout}")
            refusals = [one for one in statements if _REFUSAL in one]
            raise InputError("; ".join(refusals or [*statements, "expected the same on all processes"]))
        return found

    def _exchanged(self, mark: int, values: Tensor) -> Tensor | None:
        """Return the values of all ranks, or None if a rank has refused or has another layout."""
        self._is_sent = True
        size, capacity = values.numel(), _CAPACITY.get(self._key, _SMALLEST)
        found = gather(pad(values.double(), (1, capacity - size), value=mark), self._group)  # cuts off what is too long
        if set(found[:, 0].tolist()) != {mark} or mark == _REFUSED:
            return None
        if size <= capacity:
            return found[:, 1 : 1 + size]
        _CAPACITY[self._key] = size
        return gather(values.double(), self._group)

    def _statements(self, own: str) -> list[str]:
        """Return what every rank says."""
        texts = [""] * world_size(self._group)
        torch.distributed.all_gather_object(texts, own, group=handle(self._group))
        return [f"process {rank} {text}" for rank, text in enumerate(texts)]


_REFUSED, _REFUSAL = -1, "refused its batch: "
_SMALLEST = 9
"""Values of a message before any larger one was sent: as many as GAR on one target needs."""

_CAPACITY: "WeakKeyDictionary[_Group, int]" = WeakKeyDictionary()
"""Values of a message by group: as many as the largest that its ranks have agreed on."""


def shared_generator(generator: torch.Generator | None, group: "ProcessGroup", device: torch.device) -> torch.Generator:
    """Return a generator of the same random numbers on every rank, seeded by that of the first one."""
    check_group(group)
    source = torch.default_generator if generator is None else generator
    seed = torch.randint(2**62, (1,), generator=source, device=source.device).to(device)
    return torch.Generator(device).manual_seed(int(gather(seed, group)[0]))


def handle(group: "ProcessGroup") -> "_Group | None":
    """Return the group as torch.distributed takes it, which calls the world None."""
    return None if isinstance(group, str) else group
