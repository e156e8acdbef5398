"""Speed of the losses against what they replace: forward and backward, one thread, ratios of times measured in turns.

    python -m benchmarks.losses [--quick]

What they are compared with is written here as plainly as papers and published codes write it: GAR as some 25 differentiable
operations, Rank-N-Contrast as a loop over partners, each with a matrix of comparisons, RankSim as a loop over anchors.
"""

import argparse
import functools
import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

import gar
from benchmarks.timing import best_of_turns, in_words, print_table
from gar.functional import rank_n_contrast_loss, ranksim_loss, single
from gar.functional.moments import SmallBatches

Row = tuple[str, str, str, str]


def trainer(loss: Callable[[Tensor, Tensor], Tensor], pred: Tensor, target: Tensor) -> Callable[[], None]:
    """Forward and backward of a loss on its own copy of the predictions."""
    leaf = pred.clone().requires_grad_()

    def step() -> None:
        leaf.grad = None
        loss(leaf, target).backward()

    return step


def plain_gar(pred: Tensor, target: Tensor, alpha: float = 0.5) -> Tensor:
    """GAR as a handful of equations, for autograd to differentiate."""
    deviations = [torch.clip(x.std(dim=0), min=1e-7) for x in (pred, target)]
    centred = [x - x.mean(dim=0) for x in (pred, target)]
    diffnorm = ((centred[0] / deviations[0] - centred[1] / deviations[1]) ** 2 / 2).mean() + 1e-7
    diff = ((centred[0] - centred[1]) ** 2 / 2).mean() + 1e-7
    mae = nn.functional.l1_loss(pred, target) + 1e-7
    largest = max(mae, diff, diffnorm).detach()
    parts = [(part / largest) ** (1 / alpha) for part in (mae, diff, diffnorm)]
    return torch.stack(parts).mean().log() * alpha + largest.log()


def loop_rank_n_contrast(features: Tensor, target: Tensor, temperature: float = 2.0) -> Tensor:
    """One pass per partner, each comparing the label distances of all rows with all others: cubic."""
    n = len(features)
    others = ~torch.eye(n, dtype=torch.bool)
    gaps = (target[:, None] - target[None, :]).abs()[others].view(n, n - 1)
    similarity = -(features[:, None, :] - features[None, :, :]).norm(dim=-1)[others].view(n, n - 1) / temperature
    powers = similarity.exp()
    total = features.new_zeros(())
    for k in range(n - 1):
        farther = (gaps >= gaps[:, k : k + 1]).float()
        total = total - (similarity[:, k] - (farther * powers).sum(-1).log()).sum()
    return total / (n * (n - 1))


class _LoopRanking(torch.autograd.Function):
    @staticmethod
    def forward(ctx, row: Tensor, strength: float) -> Tensor:  # type: ignore[no-untyped-def]
        ranks = (row.argsort(descending=True).argsort() + 1).float() / len(row)
        ctx.save_for_backward(row, ranks)
        ctx.strength = strength
        return ranks

    @staticmethod
    def backward(ctx, outer: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        row, ranks = ctx.saved_tensors
        moved = ((row + ctx.strength * outer).argsort(descending=True).argsort() + 1).float() / len(row)
        return -(ranks - moved) / ctx.strength, None


def loop_ranksim(features: Tensor, target: Tensor) -> Tensor:
    """One ranking of features and one of labels per anchor."""
    unit = nn.functional.normalize(features)
    similarity = unit @ unit.T
    total = features.new_zeros(())
    for i in range(len(target)):
        by_label = ((-(target[i] - target).abs()).argsort(descending=True).argsort() + 1).float() / len(target)
        total = total + nn.functional.mse_loss(_LoopRanking.apply(similarity[i], 1.0), by_label)
    return total


def against_l1(n: int, turns: int) -> list[Row]:
    """GAR against an absolute error, eager and compiled."""
    pred, target = torch.randn(n), torch.randn(n)
    l1, garloss = nn.L1Loss(), gar.GARLoss(alpha=0.5)
    eager = [trainer(l1, pred, target), trainer(garloss, pred, target)]
    times = best_of_turns(eager, turns=turns)
    rows = [_row(f"GAR / L1Loss, {n:,} values, eager", times[1], times[0], "<= 2.3 (1.5)" if n < 1000 else "<= 2.5 (1.3)")]
    if n < 1000:
        times = best_of_turns([eager[1], trainer(plain_gar, pred, target)], turns=turns)
        rows.append(_row(f"plain autograd GAR / GAR, {n} values", times[1], times[0], ">= 2.5 (5)"))
        return rows
    torch.compiler.reset()
    compiled = [trainer(torch.compile(loss, fullgraph=True), pred, target) for loss in (l1, garloss)]
    times = best_of_turns([eager[0], *compiled], turns=turns)
    rows.append(_row(f"GAR / L1Loss, {n:,} values, both compiled", times[2], times[1], "<= 2.0 (1.2)"))
    rows.append(_row(f"compiled GAR / eager L1Loss, {n:,} values", times[2], times[0], "<= 1.0 (0.6)"))
    return rows


def against_loops(turns: int) -> list[Row]:
    """The losses on features against their loops."""
    features, target = torch.randn(256, 64), torch.randn(256)
    rnc = [trainer(loss, features, target) for loss in (rank_n_contrast_loss, loop_rank_n_contrast)]
    ranksim = [trainer(loss, features, target) for loss in (ranksim_loss, loop_ranksim)]
    quick, slow = best_of_turns(rnc, turns=turns)
    rows = [_row("cubic loop / Rank-N-Contrast, 256 x 64", slow, quick, ">= 30 (100)")]
    quick, slow = best_of_turns(ranksim, turns=turns)
    return [*rows, _row("loop over anchors / RankSim, 256 x 64", slow, quick, ">= 20 (100)")]


def small_batches(models: tuple[int, ...], rows: tuple[int, ...], turns: int) -> list[Row]:
    """Numpy against tensors for stacks of models with few rows each: what :attr:`SmallBatches.LARGEST` is chosen by."""
    found, largest = [], SmallBatches.LARGEST
    for count, n in itertools.product(models, rows):
        loss, pred, target = gar.GARLoss(torch.full((count,), 0.5)), torch.randn(count, n, 1), torch.randn(count, n, 1)

        def step(limit: int, loss: gar.GARLoss = loss, pred: Tensor = pred, target: Tensor = target) -> None:
            SmallBatches.LARGEST = limit
            loss.value_and_gradient(pred, target)

        quick, slow = best_of_turns([functools.partial(step, n), functools.partial(step, 0)], turns=turns)
        found.append(_row(f"numpy / tensors, {count} models of {n} rows", quick, slow, "<= 1 up to 64 rows"))
    SmallBatches.LARGEST = largest
    return found


def single_batches(rows: tuple[int, ...], turns: int) -> list[Row]:
    """Numpy against tensors for one model: what :data:`gar.functional.single.LARGEST` is chosen by."""
    found, largest, loss = [], single.LARGEST, gar.GARLoss(0.5)
    for n in rows:
        pred, target = torch.randn(n), torch.randn(n)

        def step(limit: int, pred: Tensor = pred, target: Tensor = target) -> None:
            single.LARGEST = limit
            loss.value_and_gradient(pred, target)

        quick, slow = best_of_turns([functools.partial(step, n), functools.partial(step, 0)], turns=turns)
        found.append(_row(f"numpy / tensors, one model of {n} rows", quick, slow, "<= 1 up to 4096 rows"))
    single.LARGEST = largest
    return found


def in_groups(rows: int, groups: int, turns: int) -> list[Row]:
    """GAR over the pairs of groups against GAR over all pairs."""
    pred, target, index = torch.randn(rows), torch.randn(rows), torch.randint(groups, (rows,))
    pair_losses = [functools.partial(gar.GARLoss(group_reduction=reduction), groups=index) for reduction in ("pooled", "mean")]
    steps = [trainer(gar.GARLoss(), pred, target), *(trainer(loss, pred, target) for loss in pair_losses)]
    plain, pooled, mean = best_of_turns(steps, turns=turns)
    what = f"{groups:,} groups / GAR, {rows:,} values"
    return [_row(f"GAR in {what}, pooled", pooled, plain, "<= 2.5"), _row(f"GAR in {what}, mean", mean, plain, "")]


def growth(sizes: tuple[int, ...], turns: int) -> list[Row]:
    """How time grows from the smallest to the largest batch, and the memory that the largest needs."""
    seconds = []
    for n in sizes:
        pred, target = torch.randn(n), torch.randn(n)
        seconds += best_of_turns([trainer(gar.GARLoss(alpha=0.5), pred, target)], turns=turns)
    slope = math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0])
    span = f"{sizes[0]:,} to {sizes[-1]:,} values"
    rows = [
        (f"GAR, {span}: slope of log time", f"{slope:.2f}", " to ".join(map(in_words, (seconds[0], seconds[-1]))), "0.9 to 1.1")
    ]
    extra = peak_memory(sizes[-1])
    return [*rows, (f"GAR, {sizes[-1]:,} values: peak memory / input", f"{extra:.2f}", "", "<= 3")]


def peak_memory(n: int) -> float:
    """Most memory that forward and backward hold at once beyond predictions and labels, in multiples of these two."""
    pred, target = torch.randn(n, requires_grad=True), torch.randn(n)
    loss = gar.GARLoss(alpha=0.5)
    loss(pred[:10], target[:10]).backward()
    pred.grad = None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        loss(pred, target).backward()
    held = most = 0
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / (2 * 4 * n)


def _row(what: str, numerator: float, denominator: float, wanted: str) -> Row:
    return what, f"{numerator / denominator:.2f}", f"{in_words(numerator)} / {in_words(denominator)}", wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns and smaller batches: a check that it runs")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    torch.manual_seed(0)
    turns = 2 if quick else 15
    rows = against_l1(256, turns) + against_l1(1_000_000, turns) + against_loops(2 if quick else 5)
    rows += small_batches((10,) if quick else (10, 50, 150, 300), (64,) if quick else (32, 64, 96), turns)
    rows += single_batches((256,) if quick else (256, 4096, 8192), turns)
    rows += in_groups(256, 16, turns) + in_groups(100_000 if quick else 1_000_000, 10_000, turns)
    rows += growth((10_000, 1_000_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000), turns)
    print_table(rows, ("what (forward + backward)", "ratio", "times", "wanted (aim)"))


if __name__ == "__main__":
    main()
