"""Kernels of a loss on an accelerator, and whether it waits for the device: ``python -m benchmarks.kernels``.

No accelerator is needed. The meta device has shapes but no values: fetching a value from it fails, as it would make a GPU wait, and
a dispatch mode counts the operations that would launch a kernel. Views launch none. The counts do not depend on the machine.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import gar

VIEWS = (
    *("alias", "as_strided", "detach", "diagonal", "expand", "permute", "reshape", "select", "slice", "split", "squeeze", "t."),
    *("transpose", "unbind", "unsqueeze", "view", "_unsafe_view"),
)
ROWS, WIDTH = 256, 64


class _Counter(TorchDispatchMode):
    """Counts operations that launch a kernel."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not function.__name__.startswith(VIEWS)
        return function(*args, **(kwargs or {}))


def meta(*shape: int) -> Tensor:
    return torch.empty(shape, device="meta")


def kernels(loss: Callable[..., Tensor], *inputs: Tensor, **options: Tensor) -> tuple[int, int]:
    """Return the number of kernels of a forward and of a backward pass; an error if the loss waits for the device."""
    leaves = [values.detach().requires_grad_() if values.requires_grad else values for values in inputs]
    with _Counter() as forward:
        value = loss(*leaves, **options)
    with _Counter() as backward:
        value.sum().backward()
    return forward.count, backward.count


def plain_gar(pred: Tensor, target: Tensor) -> Tensor:
    """GAR with alpha 1 as plain differentiable equations, as the authors' code has it."""
    f, y, error = pred - pred.mean(0), target - target.mean(0), pred - target
    correlation = (f * y).mean() / (pred.std(0, unbiased=False) * target.std(0, unbiased=False)).mean()
    components = torch.stack([error.abs().mean(), error.var(0, unbiased=False).mean(), 1 - correlation]) + 1e-7
    return torch.logsumexp(components.log(), 0)


def counts() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name and the counts of every loss, batch 256, one target."""
    pred, target, features = meta(ROWS, 1).requires_grad_(), meta(ROWS, 1), meta(ROWS, WIDTH).requires_grad_()
    yield "`torch.nn.L1Loss`", kernels(nn.L1Loss(), pred, target)
    yield "GAR written plainly, with autograd", kernels(plain_gar, pred, target)
    yield "`GARLoss()`", kernels(gar.GARLoss(), pred, target)
    yield "`GARLoss()` with `sample_weight`", kernels(gar.GARLoss(), pred, target, sample_weight=meta(ROWS))
    yield "`GARLoss()` with `mask`", kernels(gar.GARLoss(), pred, target, mask=meta(ROWS, 1).bool())
    three = meta(ROWS, 3).requires_grad_()
    yield "`GARLoss()` of three targets", kernels(gar.GARLoss(), three, meta(ROWS, 3))
    alphas = torch.ones(5, device="meta")
    yield "`GARLoss(alphas)` of five models", kernels(gar.GARLoss(alphas), meta(5, ROWS, 1).requires_grad_(), meta(5, ROWS, 1))
    for loss in (gar.MAELoss(), gar.MSELoss(), gar.HuberLoss(), gar.FocalMAELoss(), gar.FocalMSELoss(), gar.MAEPearsonLoss()):
        yield f"`{type(loss).__name__}()`", kernels(loss, pred, target)
    yield "`RankSimLoss()`", kernels(gar.RankSimLoss(), pred, target, features)
    yield "`RankNContrastLoss()`", kernels(gar.RankNContrastLoss(), features, target)
    yield "`ConRLoss()`", kernels(gar.ConRLoss(), pred, target, features)


def table() -> str:
    """Return the counts as a table in Markdown."""
    rows = [f"| {name} | {forward} + {backward} |" for name, (forward, backward) in counts()]
    return "\n".join(["| loss | kernels, forward + backward |", "|---|---|", *rows])


if __name__ == "__main__":
    print(table())
