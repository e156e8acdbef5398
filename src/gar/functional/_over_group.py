"""GAR over several processes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gar.distributed import check_group
from gar.errors import InputError

if TYPE_CHECKING:
    from gar.functional.gar import _Loss


def _over_group(loss: "_Loss", pred: Tensor) -> Tensor:
    """The loss of all ranks."""
    check_group(loss.group)
    if loss.needs_more_gradients():
        raise InputError(
            "with process_group only predictions get a gradient; use target.detach(), sample_weight.detach() and alpha.detach()"
        )
    return loss.closed_form(pred)


def _components_over_group(loss: "_Loss", pred: Tensor) -> list[Tensor]:
    """The components of the joined batch of all ranks."""
    check_group(loss.group)
    return loss.joined_components(pred)


# What torch.compile leaves to eager mode.
over_group: Callable[["_Loss", Tensor], Tensor] = torch.compiler.disable(_over_group)  # type: ignore[no-untyped-call]
components_over_group: Callable[["_Loss", Tensor], list[Tensor]] = torch.compiler.disable(_components_over_group)  # type: ignore[no-untyped-call]
