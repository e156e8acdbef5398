"""What losses exchange between processes: GAR a few sums, losses on pairs of features all rows.

It is imported on first use, since what hides it from torch.compile is slow to import.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gar.distributed import Agreement, gather, handle, world_size
from gar.errors import InputError
from gar.functional.custom_backward import with_custom_backward
from gar.functional.formulas import Moments, Number
from gar.functional.gar import GARFunction
from gar.functional.moments import as_table, merge
from gar.groups import ALL_ROWS, Groups
from gar.validation import Columns, check_labels, check_tensor, needs_derivative, on_accelerator

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup

_R = TypeVar("_R")


@torch.compiler.disable  # type: ignore[untyped-decorator]
def gar_over_group(loss: GARFunction, pred: Tensor, group: "ProcessGroup") -> Tensor:
    """Return GAR of the joined batch of all ranks."""
    if _needs_all_rows(loss):
        return _with_all_rows(loss, pred, group, GARFunction.plain)
    with Agreement(group, pred) as agreement:
        check_tensor(pred, "pred")
        _check_derivatives(loss.target, loss.sample_weight, loss.alpha)
        joined = _spread_over(group, loss, agreement)
        return joined.plain(pred) if loss.by_moments else joined.closed_form(pred)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def gar_components_over_group(loss: GARFunction, pred: Tensor, group: "ProcessGroup") -> list[Tensor]:
    """Return the components of the joined batch of all ranks."""
    if _needs_all_rows(loss):
        return _with_all_rows(loss, pred, group, GARFunction.components)
    with Agreement(group, pred) as agreement:
        return _spread_over(group, loss, agreement).components(pred)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def moments_over_group(
    value: Callable[[Callable[[Columns], Any]], Tensor],
    pred: Tensor,
    target: Tensor,
    sample_weight: Tensor | None,
    groups: Tensor | None,
    process_group: "ProcessGroup",
) -> Tensor:
    """Return a value of moments for the joined batch of all ranks."""
    with Agreement(process_group, pred) as agreement:
        _check_derivatives(target, sample_weight)
        return value(partial(_GroupTables, agreement, process_group, groups))


def _check_derivatives(*values: object) -> None:
    if needs_derivative(*values):
        raise InputError(
            "with process_group only predictions get a gradient; use target.detach(), sample_weight.detach() and alpha.detach()"
        )


def _spread_over(group: "ProcessGroup", loss: GARFunction, agreement: Agreement) -> GARFunction:
    exchange_of: Any = partial(_SumExchange, agreement, loss.settings.nan_policy == "raise")
    if loss.by_moments:
        exchange_of = partial(_GroupTables, agreement, group, loss.groups)
    return GARFunction(*loss[:6], exchange_of, world_size(group))


def _needs_all_rows(loss: GARFunction) -> bool:
    """Return True if the loss is of rows, not only of sums over them, and has no exchange of its own."""
    return loss.by_moments and loss.settings.pairs != "batch"


def _with_all_rows(loss: GARFunction, pred: Tensor, group: "ProcessGroup", value: Callable[[GARFunction, Tensor], _R]) -> _R:
    """Return a value of the loss that every rank computes from the rows of all."""

    def check() -> None:
        loss.columns(pred, pairs="batch", check_labels=False)
        _check_derivatives(loss.alpha)

    rows, *others = join_batch_rows(group, pred, loss.target, loss.sample_weight, loss.mask, loss.groups, check)
    target, sample_weight, mask, groups = others
    return value(GARFunction(loss.settings, target, loss.alpha, sample_weight, mask, groups), rows)


def join_batch_rows(
    group: "ProcessGroup",
    pred: Tensor,
    target: Tensor,
    sample_weight: Tensor | None,
    mask: Tensor | None,
    groups: Tensor | None,
    check: Callable[[], object],
) -> tuple[Any, ...]:
    """Return all of these, but ``check``, with the rows of all ranks; see :func:`join_rows`."""

    def check_all() -> None:
        check()
        _check_derivatives(target, sample_weight)
        if groups is not None and groups.ndim != 1:
            raise InputError(f"with process_group groups are those of one model, (batch,), not of shape {tuple(groups.shape)}")

    numbers = groups if groups is None or groups.is_floating_point() else groups.long().view(torch.float64)  # they travel as bits
    axis = max(getattr(pred, "ndim", 2) - 2, 0)  # what is no tensor is refused by the check
    found = join_rows(group, pred, target, sample_weight, mask, numbers, axis=axis, check=check_all)
    return *found[:4], None if groups is None else found[4].view(torch.int64)


class _SumExchange:
    """Exchanges sums with the other ranks of a group: the :class:`~gar.functional.formulas.Exchange` of torch.distributed."""

    def __init__(self, agreement: Agreement, refuse_bad_labels: bool, columns: Columns) -> None:
        self._agreement, self._refuse_bad_labels, self._target = agreement, refuse_bad_labels, columns.target

    def merged(self, local: Moments) -> Moments:
        """Return the moments of the joined batch: one exchange of nine values a column, merged in double precision."""
        if not (isinstance(local.mean_target, float) and math.isfinite(local.mean_target)):  # else all labels are finite
            self._check_labels()
        numbers = as_table(local)
        found = self._gathered(numbers, f"models and targets {tuple(numbers.shape[1:])}")
        if on_accelerator(found):
            return merge(Moments(*found.unbind(1)))
        with np.errstate(all="ignore"):  # what is not finite shows in the result
            merged = merge(Moments(*found.numpy().swapaxes(0, 1)))  # numpy is quicker with so few numbers
        return Moments(*map(float if isinstance(local.error, float) else torch.from_numpy, merged))

    def joined(self, sums: list[Number]) -> list[Number]:
        """Return sums over the columns of all ranks."""
        self._check_labels()
        numbers = torch.stack([torch.as_tensor(one) for one in sums])
        found = self._gathered(numbers, f"models {tuple(numbers.shape[1:])} and {self._target.shape[-1]} targets").sum(0)
        return list(found if isinstance(sums[0], Tensor) else found.numpy())

    def _check_labels(self) -> None:
        if self._refuse_bad_labels:
            check_labels(self._target)

    def _gathered(self, numbers: Tensor, what: str) -> Tensor:
        return self._agreement.gather(numbers.flatten(), f"{len(numbers)} sums of {what}").reshape(-1, *numbers.shape)


class _GroupTables:
    """Joins the moments of groups whose rows are spread over ranks, each known by its number."""

    def __init__(self, agreement: Agreement, process_group: "ProcessGroup", groups: Tensor | None, columns: Columns) -> None:
        if groups is not None and groups.ndim != 1:
            raise InputError(f"with process_group groups are those of one model, (batch,), not of shape {tuple(groups.shape)}")
        self._agreement, self._process_group = agreement, process_group
        self._index = (columns.groups or ALL_ROWS).codes.to(columns.pred.device)
        self._groups = self._index if groups is None else groups.long()

    def merged(self, table: Tensor) -> Tensor:
        """Return the moments of all groups of all ranks, ``(9, ..., columns, groups)``; this rank's rows keep their gradient."""
        present = torch.unique(self._index)
        numbers = self._groups.new_zeros(table.shape[-1]).scatter(0, self._index, self._groups)[present]
        own = table.index_select(-1, present).double()
        found = self._agreement.gather(table.new_tensor([len(present)]), f"groups of models and targets {tuple(table.shape[1:-1])}")
        sizes = found[:, 0].long().tolist()
        rows = torch.cat([numbers.view(torch.float64).unsqueeze(0), own.detach().flatten(0, -2)])  # numbers travel as their bits
        padded = torch.nn.functional.pad(rows, (0, max(sizes) - len(present)))
        parts = [part[:, :size] for part, size in zip(gather(padded, self._process_group), sizes, strict=True)]
        joined, index = torch.unique(torch.cat([part[0] for part in parts]).view(torch.int64), return_inverse=True)
        tables = [part[1:].unflatten(0, own.shape[:-1]) for part in parts]
        rank = torch.distributed.get_rank(handle(self._process_group))
        # The sum over ranks of the parameters' gradients is wanted, where DistributedDataParallel takes their mean.
        tables[rank] = with_custom_backward(own, lambda x: (x.clone(), lambda outer: outer * len(sizes)), None)
        merged = merge(Moments(*torch.cat(tables, -1).unbind(0)), Groups(index, len(joined)))
        return torch.stack(list(merged)).to(table.dtype)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def join_rows(
    group: "ProcessGroup", *tables: Tensor | None, axis: int, check: Callable[[], object] = lambda: None
) -> tuple[Any, ...]:
    """Join the rows of all ranks, in the order of ranks, for each of these tables; None stays None. Gradients are kept.

    All tables travel together: one exchange of the numbers of rows, and one of the rows. Shards may be of any size, also empty.

    Args:
        group: whose ranks take part. All of them must pass the same kinds of tables, of the same dtypes.
        tables: their dimension number ``axis`` is the row.
        axis: counted from 0, so that ``(..., rows)`` and ``(..., rows, columns)`` may stand together.
        check: raises if the tables of this rank are wrong; then all ranks raise.
    """
    with Agreement(group, tables[0]) as agreement:
        check()
        given = [table for table in tables if table is not None]
        if len({table.shape[axis] for table in given}) > 1:
            shapes = ", ".join(str(tuple(table.shape)) for table in given)
            raise InputError(f"tables of one batch have shapes {shapes}; expected the same number of rows in dimension {axis}")
        flat = [table.movedim(axis, 0).flatten(1) if table.ndim > 1 else table.unsqueeze(1) for table in given]
        dtype = _common_dtype(given)
        rows = torch.cat([table.to(dtype) for table in flat], 1)
        others = [None if table is None else (*table.shape[:axis], *table.shape[axis + 1 :]) for table in tables]
        layout = f"rows of shapes {others} and dtypes {[table.dtype for table in given]}"
        found = agreement.gather(rows.new_tensor([len(rows)], dtype=torch.float64), layout)
    joined: Tensor = _JoinedRows.apply(rows, found[:, 0].long().tolist(), group)  # type: ignore[no-untyped-call]
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
    def forward(ctx: Any, rows: Tensor, sizes: list[int], group: "ProcessGroup") -> Tensor:
        first = sum(sizes[: torch.distributed.get_rank(handle(group))])
        ctx.mine, ctx.ranks = slice(first, first + len(rows)), len(sizes)
        if len(set(sizes)) == 1:
            return gather(rows, group).flatten(0, 1)
        padded = torch.nn.functional.pad(rows, (0, 0, 0, max(sizes) - len(rows)))  # a collective takes equal shapes only
        return torch.cat([part[:size] for part, size in zip(gather(padded, group), sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            raise InputError("second derivatives are not available with process_group; compute them on one process")
        # Every rank computes the same loss L of all rows, so what it knows of its own rows is all there is to know: nothing has
        # to be sent. DistributedDataParallel then takes the mean over ranks of dL/dw = sum over own rows of dL/dz dz/dw, where
        # the sum over ranks is wanted: sum = world size * mean.
        return outer[ctx.mine] * ctx.ranks, None, None
