"""Checks of the inputs of losses, which bring them into one form.

Conventions, for every loss:

- predictions and targets have shape ``(batch,)``, ``(batch, targets)`` or ``(..., batch, targets)``; leading dimensions are
  independent models, and a loss has that leading shape;
- the two shapes must be equal: nothing is ever broadcast;
- float16 and bfloat16 are computed, and the loss returned, in float32;
- ``sample_weight`` counts copies, ``mask`` is True where a label counts; both have the shape of the predictions, or that
  shape without the targets.
"""

import functools
import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Literal, NamedTuple, ParamSpec, TypeVar, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gar.errors import InputError
from gar.groups import Groups, numbered

NanPolicy = Literal["raise", "omit", "propagate"]
Pairs = Literal["batch", "targets", "both"]

FULL = (torch.float32, torch.float64)
"""Dtypes that losses are computed in."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Columns(NamedTuple):
    """Checked inputs, laid out so that what is paired or averaged runs along the last dimension.

    ``pred``, ``target`` and ``weight`` have shape ``(..., columns, n)``, or just ``(n,)`` for a single column; without weights all
    rows count once. ``share`` has one dimension less: the weight of a column in the mean over columns; None if all that have rows
    count alike. ``groups`` are those within which rows are compared; None compares all.
    """

    pred: Tensor
    target: Tensor
    weight: Tensor | None
    share: Tensor | None
    groups: Groups | None = None

    def total(self, values: Tensor) -> Tensor:
        """Return the weighted sum along the last dimension."""
        return values.sum(-1) if self.weight is None else (self.weight * values).sum(-1)

    def size(self) -> Tensor | float:
        """Return the number of rows, counted with their weights."""
        return torch.sym_float(self.pred.shape[-1]) if self.weight is None else self.weight.sum(-1)  # type: ignore[no-untyped-call]

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean along the last dimension; zero for an empty column."""
        size = self.size()
        return self.total(values) / (size + (size == 0))

    def over_columns(self, values: Tensor) -> Tensor:
        """Return the mean over columns that have rows; zero where none has. ``(..., columns)`` to ``(...)``."""
        if self.weight is None:
            return values.mean(-1)
        share = self.weight.sum(-1).sign() if self.share is None else self.share
        count = share.sum(-1)
        return (values * share).sum(-1) / (count + (count == 0))


def in_full_precision(loss: Callable[_P, _R]) -> Callable[_P, _R]:
    """Run a loss outside autocast, whose matrix products would round the statistics to 8 or 11 bits."""

    @functools.wraps(loss)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise InputError(
                "torch.jit.trace would freeze the number of rows of its example into the loss, and be wrong for any other; "
                "use torch.export.export with dynamic_shapes, or trace the model without its loss"
            )
        if not torch._C._is_any_autocast_enabled():
            return loss(*args, **kwargs)
        with torch.autocast(_device_of((*args, *kwargs.values())) or "cpu", enabled=False):
            return loss(*args, **kwargs)

    return wrapped


def _device_of(values: Iterable[object]) -> str | None:
    """Return the type of device of the first tensor among arguments, or in one that is a list."""
    for value in values:
        found = value.device.type if isinstance(value, Tensor) else _device_of(value) if isinstance(value, (list, tuple)) else None
        if found is not None:
            return found
    return None


def is_traced() -> bool:
    """Return True within torch.compile or a torch.func transform, where values cannot be inspected."""
    return torch.compiler.is_compiling() or is_transformed()


def on_accelerator(values: Tensor) -> bool:
    """Return True on another device than the CPU, where a launch is dear and a look at a value waits for the device."""
    return values.device.type != "cpu"


def can_be_read(values: Tensor) -> bool:
    """Return True if values can be looked at for free: neither while tracing nor on an accelerator."""
    return not (on_accelerator(values) or is_traced())


def is_exported() -> bool:
    """Return True within torch.export, which keeps operations and loses custom backward passes."""
    return hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting()  # since PyTorch 2.7


def is_transformed() -> bool:
    """Return True within a torch.func transform (vmap, grad, ...)."""
    return torch._C._are_functorch_transforms_active()


def needs_derivative(*values: object) -> bool:
    """Return True if any of these is a tensor that is differentiated, backward or forward."""
    return any(isinstance(value, Tensor) and (value.requires_grad or has_tangent(value)) for value in values)


def has_tangent(values: Tensor) -> bool:
    """Return True if these values carry a tangent of :mod:`torch.autograd.forward_ad`."""
    # Outside a dual level there is none: comparing one number is cheaper than asking the tensor, which takes a microsecond.
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(values).tangent is not None  # type: ignore[no-untyped-call]


def as_columns(
    pred: Tensor,
    target: Tensor,
    *,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
    pairs: Pairs = "batch",
    groups: Tensor | None = None,
) -> Columns:
    """Check everything a caller can get wrong and return the inputs as :class:`Columns`."""
    pred, target = checked_pair(pred, target)
    if groups is not None:
        return _grouped(
            as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy), groups, pred, pairs
        )
    if sample_weight is None and mask is None and nan_policy == "propagate" and pred.numel() > 0:
        return Columns(_in_columns(pred, pairs), _in_columns(target, pairs), None, None)  # nothing left to check
    weight = _element_weight(pred, target, sample_weight, mask, nan_policy, pairs)
    if weight is not None:
        # What does not count may hold NaN: 0 * NaN is NaN, so it is replaced and not just multiplied away.
        left_out = weight <= 0
        pred, target = pred.masked_fill(left_out, 0.0), target.masked_fill(left_out, 0.0)
    columns = Columns(_in_columns(pred, pairs), _in_columns(target, pairs), None, None)
    if weight is None:
        return columns
    share: Tensor | None = None
    if pairs == "targets" and sample_weight is not None and sample_weight.ndim == pred.ndim - 1:
        share = (weight > 0).any(-1) * sample_weight.to(pred.dtype)
    return Columns(columns.pred, columns.target, _in_columns(weight, pairs), share)


def _grouped(columns: Columns, groups: Tensor, pred: Tensor, pairs: Pairs) -> Columns:
    if pairs != "batch":
        raise InputError(f"groups hold rows that are compared, but pairs={pairs!r} compares no rows; leave one of them out")
    return Columns(*columns[:4], as_groups(groups, pred))


def as_groups(groups: Tensor, pred: Tensor) -> Groups:
    """Check group labels, any whole numbers in any order, one per row of ``pred``, and number the groups from 0.

    Example:
        >>> as_groups(torch.tensor([70, -3, 70]), torch.zeros(3, 1))
        Groups(codes=tensor([1, 0, 1]), total=2)
    """
    check_groups(groups)
    check_device(pred, groups, "groups")
    rows = pred.shape[:1] if pred.ndim == 1 else pred.shape[:-1]
    if groups.shape not in (rows, rows[-1:]):
        allowed = f"{tuple(rows[-1:])}" + (f" or {tuple(rows)}" if len(rows) > 1 else "")
        raise InputError(
            f"groups has shape {tuple(groups.shape)}; for pred of shape {tuple(pred.shape)} it must be {allowed}: one group per row"
        )
    # The number of groups of a model must not depend on its neighbours: sums of another length are rounded differently.
    index, count = numbered(groups.long(), readable=groups.ndim == 1 and can_be_read(groups))
    return Groups(index if groups.ndim == 1 else index.unsqueeze(-2), count)


def check_groups(groups: Tensor) -> None:
    """Raise unless these are whole numbers."""
    check_tensor(groups, "groups")
    if groups.is_floating_point():
        missing = int(groups.isnan().sum()) if can_be_read(groups) else 0
        found = f"{missing} NaN of {groups.numel()} values" if missing else f"dtype {groups.dtype}"
        raise InputError(f"groups has {found}; expected whole numbers, a group for every row: use groups.long() if they are whole")


def _in_columns(values: Tensor, pairs: Pairs) -> Tensor:
    """Return ``(batch,)`` or ``(..., batch, targets)`` as ``(n,)`` or ``(..., columns, n)``."""
    if pairs == "batch":
        if values.ndim == 1:
            return values
        return values.squeeze(-1) if values.ndim == 2 and values.shape[-1] == 1 else values.mT
    if values.ndim == 1 or values.shape[-1] < 2:
        raise InputError(
            f"pairs='targets' compares the targets of one row, but pred has shape {tuple(values.shape)} with a single target; "
            "use pairs='batch', or pass predictions of shape (batch, targets) with at least two targets"
        )
    return values


def like_inputs(values: Tensor, pred: Tensor, pairs: Pairs) -> Tensor:
    """Undo the layout of :func:`as_columns`: return values in the shape and dtype of the predictions."""
    if pairs == "targets" or pred.ndim == 1:
        return values.to(pred.dtype)
    return values.unsqueeze(-1).to(pred.dtype) if values.ndim == 1 else values.mT.to(pred.dtype)


def checked_pair(pred: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Check for equal shapes, one device and floating predictions; return both in the dtype the loss is computed in."""
    check_tensor(pred, "pred")
    check_tensor(target, "target")
    same = pred.dtype == target.dtype and pred.shape == target.shape and pred.device == target.device
    if same and pred.dtype in FULL and pred.ndim > 0:
        return pred, target  # the usual case needs none of the checks below
    if pred.shape != target.shape:
        raise InputError(_shape_message(pred, target))
    if pred.ndim == 0:
        raise InputError("pred and target are single numbers; a loss needs a batch dimension: use pred.reshape(1)")
    check_device(pred, target, "target")
    if not pred.is_floating_point():
        raise InputError(f"pred has dtype {pred.dtype}, which carries no gradient; use pred.float()")
    dtype = compute_dtype(pred, target)
    return pred.to(dtype), target.to(dtype)


def compute_dtype(pred: Tensor, target: Tensor) -> torch.dtype:
    """Return the wider dtype of the two, and at least float32. Integer targets take the dtype of the predictions."""
    wider = torch.promote_types(pred.dtype, target.dtype) if target.is_floating_point() else pred.dtype
    return torch.promote_types(wider, torch.float32)


def check_tensor(value: object, name: str) -> None:
    if not isinstance(value, Tensor):
        raise InputError(f"{name} is a {type(value).__name__}; expected a torch.Tensor: use torch.as_tensor({name})")
    if value.is_complex():
        raise InputError(f"{name} has dtype {value.dtype}; expected real numbers: use {name}.real")


def check_device(one: Tensor, other: Tensor, name: str, *, one_name: str = "pred") -> None:
    if one.device != other.device:
        raise InputError(f"{one_name} is on {one.device}, {name} on {other.device}; use {name}.to({one_name}.device)")


def check_choice(value: object, choices: tuple[object, ...], name: str) -> None:
    if value not in choices:
        raise InputError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, choices))}")


def whole_number(value: object, name: str, *, least: int = 1) -> int:
    """Return a whole number of any type, numpy's too, as an int; raise if it is something else or too small."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name}={value!r} is not a whole number of {least} or more")
    return int(value)


def parameter_like(value: float | Tensor, models: torch.Size, like: Tensor, name: str, *, open_end: bool = True) -> float | Tensor:
    """Check a loss parameter: a number, or a tensor with one value per model, which takes the dtype and device of ``like``."""
    return per_model(check_parameter(value, name, open_end=open_end), models, like, name)


def per_model(value: float | Tensor, models: torch.Size, like: Tensor, name: str) -> float | Tensor:
    """Bring a checked loss parameter into the shape of the models; a number stays as it is."""
    if not isinstance(value, Tensor):
        return value
    if value.shape == models:
        return value.to(like)
    if value.ndim > 0:
        raise InputError(
            f"{name} has shape {tuple(value.shape)}, but the models have shape {tuple(models)}; "
            "pass a number or one value per model"
        )
    return value.to(like).expand(models)


def tuned_parameter(value: float | Tensor, name: str, *, open_end: bool = True) -> float | Tensor:
    """Check a loss parameter for a module: a float, or a tensor that becomes a buffer of the module it is assigned to."""
    value = check_parameter(value, name, open_end=open_end)
    return torch.nn.Buffer(value.detach().clone()) if isinstance(value, Tensor) else float(value)


@overload
def check_parameter(value: float, name: str, *, open_end: bool = True) -> float: ...
@overload
def check_parameter(value: float | Tensor, name: str, *, open_end: bool = True) -> float | Tensor: ...
def check_parameter(value: float | Tensor, name: str, *, open_end: bool = True) -> float | Tensor:
    """Check that a number, or every value of a tensor, is above 0, or at least 0 if not ``open_end``. Traced tensors pass.

    Returns it, with a number of another library, such as numpy's, as a float.
    """
    if isinstance(value, Tensor):
        if not can_be_read(value) or value.numel() == 0:
            return value
        least = float(value.detach().min())  # NaN where any value is NaN
    else:
        value = least = _as_number(value, name)
    if not (least > 0 or (least == 0 and not open_end)):
        raise InputError(f"{name}={least} is out of range; expected a number {'>' if open_end else '>='} 0")
    return value


def _as_number(value: object, name: str) -> float:
    number = value if isinstance(value, (float, int)) else float(value) if isinstance(value, Real) else None
    if number is None or isinstance(number, bool):
        raise InputError(f"{name}={value!r} is a {type(value).__name__}; expected a number or a tensor with one value per model")
    return number


def check_nan_policy(nan_policy: object) -> None:
    check_choice(nan_policy, ("raise", "omit", "propagate"), "nan_policy")


def check_eps(eps: float) -> float:
    eps = check_parameter(eps, "eps")
    if not eps < 1:
        raise InputError(f"eps={eps!r}; expected a small positive number such as 1e-7")
    return eps


def _shape_message(pred: Tensor, target: Tensor) -> str:
    shapes = f"pred has shape {tuple(pred.shape)}, target {tuple(target.shape)}; they must be equal, nothing is broadcast"
    if pred.numel() != target.numel():
        return f"{shapes}; if the models share one target, use target.expand_as(pred)"
    if pred.ndim == target.ndim + 1 and pred.shape[-1] == 1:
        return f"{shapes}; use pred.squeeze(-1) or target.unsqueeze(-1)"
    if target.ndim == pred.ndim + 1 and target.shape[-1] == 1:
        return f"{shapes}; use target.squeeze(-1) or pred.unsqueeze(-1)"
    return f"{shapes}; use target.reshape(pred.shape) if the order of the values is the same"


def _element_weight(
    pred: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, nan_policy: NanPolicy, pairs: Pairs
) -> Tensor | None:
    """Return the weight of each label: the product of weights and masks, in the shape of the predictions, or None for all ones."""
    check_nan_policy(nan_policy)
    check_choice(pairs, ("batch", "targets"), "pairs")
    weight: Tensor | None = None
    if sample_weight is not None:
        weight = _as_elements(sample_weight, pred, "sample_weight").to(pred.dtype)
        check_weight(weight)
        if pairs == "targets" and sample_weight.ndim == pred.ndim - 1:
            weight = (weight > 0).to(pred.dtype)  # a row's own weight belongs to the mean over rows
    if mask is not None:
        check_mask(mask)
        weight = _times(weight, _as_elements(mask, pred, "mask"), pred)
    if nan_policy == "omit":
        weight = _times(weight, ~target.isnan(), pred)
    elif nan_policy == "raise":
        check_labels(target if weight is None else target.where(weight > 0, 0.0))
    if weight is None and pred.shape[0 if pred.ndim == 1 else -2] == 0:
        weight = torch.zeros_like(pred)  # an empty batch: as if everything were masked
    return weight


def _times(weight: Tensor | None, keep: Tensor, like: Tensor) -> Tensor:
    return keep.to(like.dtype) if weight is None else weight * keep


def _as_elements(value: Tensor, pred: Tensor, name: str) -> Tensor:
    """Return a weight or mask per element, or per row (the shape of pred without targets), as one value per element."""
    check_tensor(value, name)
    check_device(pred, value, name)
    if value.shape == pred.shape:
        return value
    if pred.ndim > 1 and value.shape == pred.shape[:-1]:
        return value.unsqueeze(-1).expand(pred.shape)
    allowed = f"{tuple(pred.shape)}" if pred.ndim == 1 else f"{tuple(pred.shape)} or {tuple(pred.shape[:-1])}"
    raise InputError(f"{name} has shape {tuple(value.shape)}; for pred of shape {tuple(pred.shape)} it must be {allowed}")


def check_mask(mask: Tensor) -> None:
    check_tensor(mask, "mask")
    if mask.dtype != torch.bool:
        raise InputError(f"mask has dtype {mask.dtype}; expected torch.bool, True where a label counts: use mask.bool()")


def check_weight(weight: Tensor, name: str = "sample_weight") -> None:
    if not can_be_read(weight) or weight.numel() == 0:
        return
    lowest = float(weight.detach().min())
    if not (lowest >= 0 and math.isfinite(float(weight.detach().max()))):
        found = lowest if not lowest >= 0 else "inf"
        raise InputError(f"{name} contains {found}; expected finite numbers >= 0: 0 leaves a row out, 2 counts it twice")


def check_labels(target: Tensor) -> None:
    """Raise for NaN or inf in labels that can be read; see :func:`can_be_read`."""
    bad = bad_labels(target)
    if bad:
        raise InputError(f"target has {bad} NaN or infinite of {target.numel()} values; remove them, {_LET_PASS}")


def bad_labels(target: Tensor) -> int:
    """Return the number of labels that are NaN or inf; 0 if they cannot be read. A finite sum proves in one pass that all are."""
    if not can_be_read(target) or not target.is_floating_point() or math.isfinite(target.detach().sum().item()):
        return 0
    return int((~torch.isfinite(target)).sum())


_LET_PASS = "use nan_policy='omit' to leave out missing (NaN) labels, or nan_policy='propagate' to let them through"
