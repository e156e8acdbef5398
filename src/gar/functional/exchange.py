"""What losses exchange between processes: GAR a few sums, losses on pairs of features all rows.

It is imported on first use, since what hides it from torch.compile is slow to import.
"""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gar.distributed import check_group, gather, handle, world_size
from gar.errors import InputError
from gar.functional.formulas import Moments, Number
from gar.functional.gar import GARFunction
from gar.functional.moments import as_table, merge
from gar.validation import bad_labels, bad_labels_elsewhere, check_labels, needs_derivative

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


@torch.compiler.disable  # type: ignore[untyped-decorator]
def gar_over_group(loss: GARFunction, pred: Tensor, group: "ProcessGroup") -> Tensor:
    """Return GAR of the joined batch of all ranks."""
    if needs_derivative(loss.target, loss.sample_weight, loss.alpha):
        check_group(group)
        raise InputError(
            "with process_group only predictions get a gradient; use target.detach(), sample_weight.detach() and alpha.detach()"
        )
    return _spread_over(group, loss).closed_form(pred)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def gar_components_over_group(loss: GARFunction, pred: Tensor, group: "ProcessGroup") -> list[Tensor]:
    """Return the components of the joined batch of all ranks."""
    return _spread_over(group, loss).components(pred)


def _spread_over(group: "ProcessGroup", loss: GARFunction) -> GARFunction:
    check_group(group)
    exchange_of = partial(_GroupExchange, group, loss.settings.nan_policy == "raise")
    return GARFunction(*loss[:5], exchange_of, world_size(group))


class _GroupExchange:
    """Exchanges sums with the other ranks of a group: the :class:`~gar.functional.formulas.Exchange` of torch.distributed."""

    def __init__(self, group: "ProcessGroup", refuse_bad_labels: bool, target: Tensor) -> None:
        self._group, self._refuse_bad_labels, self._target = group, refuse_bad_labels, target

    def merged(self, local: Moments) -> Moments:
        """Return the moments of the joined batch: one exchange of nine values a column, merged in double precision."""
        merged = merge(Moments(*self._gathered(as_table(local)).unbind(1)))
        return Moments(*map(float, merged)) if isinstance(local.error, float) else merged

    def joined(self, sums: list[Number]) -> list[Number]:
        """Return sums over the columns of all ranks."""
        found = self._gathered(torch.stack([torch.as_tensor(one) for one in sums])).sum(0)
        return list(found if isinstance(sums[0], Tensor) else found.numpy())

    def _gathered(self, numbers: Tensor) -> Tensor:
        """Return ``numbers`` of all ranks, the first of which are counts.

        A rank that stopped at a bad label would leave the others waiting for it. So it takes part, with NaN for that count, which
        never is NaN otherwise, and then all ranks stop.
        """
        if not self._refuse_bad_labels:
            return gather(numbers, self._group)
        if bad_labels(self._target):
            numbers[0] = math.nan
        found = gather(numbers, self._group)
        if bool(found[:, 0].isnan().any()):
            check_labels(self._target)
            raise bad_labels_elsewhere()
        return found


@torch.compiler.disable  # type: ignore[untyped-decorator]
def join_rows(group: "ProcessGroup", *tables: Tensor | None, axis: int) -> tuple[Any, ...]:
    """Join the rows of all ranks, in the order of ranks, for each of these tables; None stays None. Gradients are kept.

    All tables travel together: one exchange of two values and one of the rows. Shards may be of any size, also empty.

    Args:
        group: whose ranks take part. All of them must pass the same kinds of tables.
        tables: their dimension number ``axis`` is the row.
        axis: counted from 0, so that ``(..., rows)`` and ``(..., rows, columns)`` may stand together.
    """
    check_group(group)
    given = [table for table in tables if table is not None]
    if len({table.shape[axis] for table in given}) > 1:
        shapes = ", ".join(str(tuple(table.shape)) for table in given)
        raise InputError(f"tables of one batch have shapes {shapes}; expected the same number of rows in dimension {axis}")
    flat = [table.movedim(axis, 0).flatten(1) if table.ndim > 1 else table.unsqueeze(1) for table in given]
    dtype = _common_dtype(given)
    joined: Tensor = _JoinedRows.apply(torch.cat([table.to(dtype) for table in flat], 1), group)  # type: ignore[no-untyped-call]
    parts = iter(zip(given, torch.split(joined, [table.shape[1] for table in flat], 1), strict=True))
    return tuple(None if table is None else _unflattened(*next(parts), axis) for table in tables)


def _common_dtype(tables: list[Tensor]) -> torch.dtype:
    """Return a dtype in which no table is rounded. PyTorch's own choice for bfloat16 and whole numbers, bfloat16, would round
    labels above 256."""
    wide = (table.dtype.itemsize > 4 if table.is_floating_point() else table.dtype.itemsize > 2 for table in tables)
    return torch.float64 if any(wide) else torch.float32


def _unflattened(like: Tensor, rows: Tensor, axis: int) -> Tensor:
    shape = [len(rows), *like.shape[:axis], *like.shape[axis + 1 :]]
    rows = rows if like.requires_grad else rows.detach()  # labels went with features, but ask for no gradient
    return rows.reshape(shape).movedim(0, axis).to(like.dtype)


class _JoinedRows(torch.autograd.Function):
    """Rows ``(n, columns)`` of all ranks, below each other."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: "ProcessGroup") -> Tensor:
        shapes = gather(torch.tensor(rows.shape, device=rows.device), group)
        sizes = shapes[:, 0].tolist()
        if len(widths := set(shapes[:, 1].tolist())) > 1:
            raise InputError(
                f"ranks pass rows of {sorted(widths)} values; all must pass features, labels, weights and mask of the same "
                "shape, or none"
            )
        first = sum(sizes[: torch.distributed.get_rank(handle(group))])
        ctx.mine, ctx.ranks = slice(first, first + len(rows)), len(sizes)
        padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))  # a collective takes equal shapes only
        return torch.cat([part[:size] for part, size in zip(gather(padded, group), sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            raise InputError("second derivatives are not available with process_group; compute them on one process")
        # Every rank computes the same loss L of all rows, so what it knows of its own rows is all there is to know: nothing has
        # to be sent. DistributedDataParallel then takes the mean over ranks of dL/dw = sum over own rows of dL/dz dz/dw, where
        # the sum over ranks is wanted: sum = world size * mean.
        return outer[ctx.mine] * ctx.ranks, None
