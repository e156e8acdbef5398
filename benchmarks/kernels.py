"""Kernels of losses and of training on an accelerator, and whether they wait for the device: ``python -m benchmarks.kernels``.

No accelerator is needed. The meta device has shapes but no values: fetching a value from it fails, as it would make a GPU wait, and
a dispatch mode counts the operations that would launch a kernel. Views launch none. The counts do not depend on the machine.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._inductor.utils import run_and_get_code
from torch.utils._python_dispatch import TorchDispatchMode

import gar
from gar.stack import Models, StackData, TrainSettings
from gar.stack.training import ActiveStack, Batches

VIEWS = (
    *("alias", "as_strided", "detach", "diagonal", "expand", "permute", "reshape", "select", "slice", "split", "squeeze", "t."),
    *("transpose", "unbind", "unsqueeze", "view", "_unsafe_view"),
)
ROWS, WIDTH = 256, 64


class Counter(TorchDispatchMode):
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
    with Counter() as forward:
        value = loss(*leaves, **options)
    with Counter() as backward:
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
    days = meta(ROWS).long()
    yield "`GARLoss()` with `groups`", kernels(gar.GARLoss(), pred, target, groups=days)
    yield '`GARLoss(group_reduction="mean")` with `groups`', kernels(gar.GARLoss(group_reduction="mean"), pred, target, groups=days)
    for loss in (gar.MAELoss(), gar.MSELoss(), gar.HuberLoss(), gar.FocalMAELoss(), gar.FocalMSELoss(), gar.MAEPearsonLoss()):
        yield f"`{type(loss).__name__}()`", kernels(loss, pred, target)
    for agreement in (gar.PearsonLoss(), gar.ConcordanceLoss(), gar.NashSutcliffeLoss(), gar.KlingGuptaLoss()):
        yield f"`{type(agreement).__name__}()`", kernels(agreement, pred, target)
    yield "`RankSimLoss()`", kernels(gar.RankSimLoss(), pred, target, features)
    yield "`RankNContrastLoss()`", kernels(gar.RankNContrastLoss(), features, target)
    yield "`ConRLoss()`", kernels(gar.ConRLoss(), pred, target, features)


def table() -> str:
    """Return the counts as a table in Markdown."""
    rows = [f"| {name} | {forward} + {backward} |" for name, (forward, backward) in counts()]
    return "\n".join(["| loss | kernels, forward + backward |", "|---|---|", *rows])


def compiled_kernels(loss: Callable[[Tensor, Tensor], Tensor]) -> int:
    """Return the number of fused kernels that torch.compile generates for a whole training step: forward, loss, backward, SGD.

    ``fullgraph`` makes a break of the graph an error. Matrix products are not counted: they call a library.
    """
    torch.compiler.reset()
    model = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 1))
    x, y, weights = torch.randn(ROWS, 8), torch.randn(ROWS, 1), list(model.parameters())

    def step() -> Tensor:
        value = loss(model(x), y)
        gradients = torch.autograd.grad(value, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient, alpha=0.1)
        return value.detach()

    with torch._dynamo.config.patch(trace_autograd_ops=True):
        _, codes = run_and_get_code(torch.compile(step, fullgraph=True))
    (code,) = codes
    return len(re.findall(r"^ +cpp_fused_\w+\(", code, re.MULTILINE))


def compiled_table() -> str:
    """Return the kernels of compiled training steps as a table in Markdown."""
    losses = (nn.L1Loss(), gar.GARLoss())
    rows = [f"| `{type(loss).__name__}()` | {compiled_kernels(loss)} |" for loss in losses]
    return "\n".join(["| compiled training step | fused kernels |", "|---|---|", *rows])


def stack_kernels(loss: str, **settings: Any) -> tuple[int, int]:
    """Return the kernels of a step in training 36 networks, and those of a whole epoch; an error if either waits for the device."""
    x = np.random.default_rng(0).normal(size=(600, 10))
    data = StackData(x, x.sum(1), [(np.arange(480), np.arange(480, 540), np.arange(540, 600))] * 3)
    models = Models.grid(folds=(0, 1, 2), learning_rates=(0.1, 0.01, 0.001, 0.0001), seeds=(1, 2, 3))
    common, like = TrainSettings(loss=loss, batch_size=64, epochs=1, **settings), meta(0)
    with torch.no_grad():
        stack = ActiveStack(data, models, common, like)
        batches = Batches(data, stack.sources, common, like)
        with Counter() as epoch:
            stack.train_epoch(batches, 1.0)
        first, rate = next(iter(batches)), torch.ones(len(models), 1, device="meta")
        with Counter() as step:
            stack.train_step(first, rate)
    return step.count, epoch.count


def stack_table() -> str:
    """Return the kernels of training a stack as a table in Markdown."""
    wide: dict[str, Any] = {"hidden_sizes": (128, 256, 128, 64)}
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("MAE, SGD", "mae", {}),
        ("GAR, SGD", "gar", {}),
        ("GAR, AdamW", "gar", {"optimizer": "adamw"}),
        ("GAR, SGD, wide", "gar", wide),
    ]
    rows = [f"| {name} | {step} | {epoch} |" for name, loss, more in cases for step, epoch in [stack_kernels(loss, **more)]]
    return "\n".join(["| 36 networks as one stack | kernels of a step | of an epoch of 7 steps |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table(), stack_table(), compiled_table(), sep="\n\n")
