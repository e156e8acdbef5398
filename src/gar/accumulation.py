"""Large batches from small ones: the gradients of the whole batch with the memory of a part.

The mean of the gradients of micro-batches is the gradient of the whole batch only where the loss is a plain mean over rows. GAR,
and every loss on pairs, is not: a part has no pairs of its rows with those of others. But a loss depends on predictions alone,
which are as small as the labels. So there are two passes: the first, without a graph, gives all predictions, and the loss of
them its gradient by each; that is where the sums over the whole batch enter, also those of other processes. The second pass
builds the graph of one part at a time, and starts its backward pass from those gradients.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gar.distributed import Agreement
from gar.errors import InputError
from gar.functional.custom_backward import with_custom_backward
from gar.validation import whole_number

Output = Tensor | tuple[Tensor, ...]
LossFunction = Callable[..., Tensor]

_SAME = 1e-2
"""Allowed difference of the predictions of both passes, relative to the largest: other random numbers move them much further,
rounding on any device much less."""


def backward_in_parts(
    model: nn.Module,
    loss: LossFunction,
    x: Tensor | tuple[Tensor, ...],
    target: Tensor,
    *,
    size: int = 64,
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    groups: Tensor | None = None,
) -> Tensor:
    """Add to ``.grad`` what ``loss(model(x), target).backward()`` would, with the graph of ``size`` rows at a time.

    The price is a second forward pass. Besides one part, memory holds the model's outputs for the whole batch and their gradients.

    Args:
        model: its outputs are a tensor, or a tuple of them. With :class:`~torch.nn.parallel.DistributedDataParallel` gradients are
            averaged once, after the last part; ranks may have different numbers of parts. A loss with ``process_group`` is that
            of all ranks, which all raise if one of them cannot make its outputs.
        loss: called as ``loss(outputs, target)``. For a loss of features let the model return both, and write
            ``lambda out, y: ranksim(out[0], y, out[1])``.
        x: inputs with the rows in their first dimension; a tuple is several of them: ``model(*x)``.
        target: labels, as the loss wants them, with the rows in their first dimension.
        size: rows of a part; the last one may be smaller.
        sample_weight: passed on to the loss, if given.
        mask: passed on to the loss, if given.
        groups: passed on to the loss, if given. The rows of a group may lie in different parts.

    Returns:
        The loss of the whole batch, without a graph.

    Dropout draws the same numbers in both passes: the random state of each part is kept, as in activation checkpointing. Batch
    normalisation in training mode sees single parts, here as in any accumulation: its outputs are not those of the whole batch, and
    its running averages move twice. Call ``.eval()`` on such layers, or use layer or group normalisation.

    Example:
        >>> from gar import GARLoss
        >>> model, x, y = torch.nn.Linear(3, 1), torch.randn(1000, 3), torch.randn(1000, 1)
        >>> value = backward_in_parts(model, GARLoss(), x, y, size=64)
        >>> whole = torch.autograd.grad(GARLoss()(model(x), y), model.weight)[0]
        >>> torch.allclose(model.weight.grad, whole, atol=1e-6)
        True
    """
    inputs = (x,) if isinstance(x, Tensor) else tuple(x)
    batch, random_states = WholeBatch(loss), []
    # Without the wrapper the first pass sends nothing, so ranks may have different numbers of parts.
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    with _agreement_before(loss, target), torch.no_grad():
        parts, device = _part_slices(inputs, target, size), inputs[0].device
        for rows in parts:
            random_states.append(random_state(device))
            batch.add(bare(*(one[rows] for one in inputs)))
    options = {"sample_weight": sample_weight, "mask": mask, "groups": groups}
    value = batch.evaluate(target, **{name: given for name, given in options.items() if given is not None})
    for rows, states in zip(parts, random_states, strict=True):
        with replayed(states, device), _synchronised(model, rows is parts[-1]):
            torch.autograd.backward(batch.part(model(*(one[rows] for one in inputs))))
    return value


class WholeBatch:
    """The loss of a batch that comes in parts: for training loops of your own.

    Add the outputs of all parts, made without a graph; evaluate the loss of all; then make the outputs of each part again, in the
    same order, and call ``part(outputs).backward()``.

    Args:
        loss: called as ``loss(outputs, target, ...)``.

    Example:
        >>> from gar import GARLoss
        >>> model, x, y = torch.nn.Linear(3, 1), torch.randn(1000, 3), torch.randn(1000, 1)
        >>> batch = WholeBatch(GARLoss())
        >>> with torch.no_grad():
        ...     for part in x.split(64):
        ...         batch.add(model(part))
        >>> value = batch.evaluate(y)
        >>> for part in x.split(64):
        ...     batch.part(model(part)).backward()
    """

    def __init__(self, loss: LossFunction) -> None:
        self._loss = loss
        self._seen: list[tuple[Tensor, ...]] = []
        self._is_tuple = False
        self._value: Tensor | None = None
        self._gradients: Iterator[tuple[Tensor | None, ...]] = iter(())

    def add(self, outputs: Output) -> None:
        """Add the outputs of the next part; no graph is kept."""
        if self._value is not None:
            raise InputError("a part was added after the loss was evaluated; make a new WholeBatch for the next batch")
        self._is_tuple = isinstance(outputs, tuple)
        self._seen.append(tuple(one.detach() for one in _as_tuple(outputs)))

    def evaluate(self, target: Tensor, **options: Any) -> Tensor:
        """Return the loss of all parts together, without a graph; with more arguments for the loss, such as ``sample_weight``."""
        if not self._seen:
            raise InputError("no part was added; call add(outputs) for each part before evaluate(target)")
        whole = [torch.cat(parts).requires_grad_() for parts in zip(*self._seen, strict=True)]
        with torch.enable_grad():
            value = self._loss(tuple(whole) if self._is_tuple else whole[0], target, **options)
        if value.ndim:
            raise InputError(f"the loss gave shape {tuple(value.shape)}; expected one number: outputs of one model")
        gradients = torch.autograd.grad(value, whole, allow_unused=True)
        sizes = [len(part[0]) for part in self._seen]
        cut = [[None] * len(sizes) if gradient is None else torch.split(gradient, sizes) for gradient in gradients]
        self._gradients = iter(list(zip(*cut, strict=True)))
        self._value = value.detach()
        return self._value

    def part(self, outputs: Output) -> Tensor:
        """Return the loss of the whole batch, with the gradient by the outputs of the next part."""
        gradients = next(self._gradients, None)
        if self._value is None or gradients is None:
            raise InputError("there is no such part; add all parts, call evaluate(target), then part(outputs) once for each")
        value, total = self._value, None
        for one, before, gradient in zip(_as_tuple(outputs), self._seen.pop(0), gradients, strict=True):
            _check_same(one.detach(), before)
            if gradient is not None:
                term = with_custom_backward(one, lambda _, gradient=gradient: (value.clone(), gradient), None)  # type: ignore[misc]
                total = term if total is None else total + (term - value)
        return value if total is None else total


def _as_tuple(outputs: Output) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def _agreement_before(loss: LossFunction, target: Tensor) -> AbstractContextManager[Any]:
    """Let all ranks raise for what is wrong on one before a loss of all ranks, which has its ``process_group``, is evaluated."""
    group = getattr(loss, "process_group", None)
    return nullcontext() if group is None else Agreement(group, target)


def _part_slices(inputs: tuple[Tensor, ...], target: Tensor, size: int) -> list[slice]:
    """Return the rows of each part as slices. An empty batch is one empty part: under DDP this rank must join the exchange."""
    size = whole_number(size, "size")
    rows = {len(one) for one in (*inputs, target)}
    if len(rows) != 1:
        raise InputError(f"x and target have {sorted(rows)} rows; expected the same number")
    total = rows.pop()
    return [slice(start, min(start + size, total)) for start in range(0, max(total, 1), size)]


def _check_same(again: Tensor, before: Tensor) -> None:
    if again.shape != before.shape:
        raise InputError(
            f"the outputs of this part had shape {tuple(before.shape)} and now have {tuple(again.shape)}; "
            "make the parts again in the same order"
        )
    if before.numel() == 0:
        return
    allowed = _SAME * before.abs().max()
    if bool(((again - before).abs() > allowed).any()):
        raise InputError(
            "the outputs of this part are not those of the first pass, so the gradient would be wrong; the model draws random "
            "numbers (dropout) or has changed: use backward_in_parts, restore the random state, or call model.eval()"
        )


def _synchronised(model: nn.Module, last: bool) -> AbstractContextManager[Any]:
    """Let DDP exchange gradients in the last backward pass only; before it they add up."""
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return nullcontext()


def random_state(device: torch.device) -> list[Tensor]:
    """Return the state of the CPU's random numbers, and of those of the device if it is another."""
    states = [torch.get_rng_state()]
    return states if device.type == "cpu" else [*states, torch.get_device_module(device).get_rng_state(device)]


@contextmanager
def replayed(states: list[Tensor], device: torch.device) -> Iterator[None]:
    """Draw the random numbers that follow these states, and afterwards go on with those of before."""
    before = random_state(device)
    _set_random_state(states, device)
    try:
        yield
    finally:
        _set_random_state(before, device)


def _set_random_state(states: list[Tensor], device: torch.device) -> None:
    torch.set_rng_state(states[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states[1], device)
