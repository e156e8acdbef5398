"""The paper's squared sine, fitted with four losses: what training on differences does for the shape.

    python examples/squared_sine.py [--out FOLDER] [--epochs N]

The curve swings ever wider and faster away from zero. A network of five hidden layers of 100 ELU units sees a random half of
2048 points, for 300 epochs of Adam in batches of 128, the learning rate divided by 10 after a third and two thirds of them (the
protocol of the paper). Each loss is run with two learning rates and three seeds; shown is the rate with the lower mean absolute
error on the other half, the paper's own rule.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from joblib import Parallel, delayed
from torch import Tensor, nn

import gar

LOSSES: dict[str, nn.Module] = {
    "MAE": gar.MAELoss(),
    "MSE": gar.MSELoss(),
    "MAE-Pearson": gar.MAEPearsonLoss(balance="code"),
    "GAR": gar.GARLoss(alpha=0.5),
}
RATES = (1e-2, 1e-3)
SEEDS = (1, 2, 3)
COLOURS = {"MAE": "#4477aa", "MSE": "#228833", "MAE-Pearson": "#aa3377", "GAR": "#ee6677"}


class Fit(NamedTuple):
    """One trained network: its predictions everywhere, and how good they are on the points it has not seen."""

    curve: Tensor
    mae: float
    pearson: float


def squared_sine() -> tuple[Tensor, Tensor]:
    steps = torch.arange(-1024.0, 1024.0)
    x = steps.sign() * steps.abs().sqrt()
    y = x.square() * x.sin() / x.square().mean()
    return x[:, None], y[:, None]


def network() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(1, 100), nn.ELU()]
    for _ in range(4):
        layers += [nn.Linear(100, 100), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(100, 1))


def fit(loss: nn.Module, rate: float, seed: int, epochs: int) -> Fit:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = squared_sine()
    seen, unseen = torch.randperm(len(x)).chunk(2)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [epochs // 3, 2 * epochs // 3])
    for _ in range(epochs):
        for batch in seen[torch.randperm(len(seen))].split(128):
            optimizer.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
    with torch.no_grad():
        curve = model(x)
    pair = torch.cat([curve[unseen], y[unseen]], 1)
    return Fit(curve[:, 0], float((pair[:, 0] - pair[:, 1]).abs().mean()), float(torch.corrcoef(pair.T)[0, 1]))


def fit_all(epochs: int) -> dict[str, list[Fit]]:
    """For every loss the fits of its better learning rate."""
    runs = [(name, rate, seed) for name in LOSSES for rate in RATES for seed in SEEDS]
    tasks = (delayed(fit)(LOSSES[name], rate, seed, epochs) for name, rate, seed in runs)
    fits: dict[tuple[str, float], list[Fit]] = {}
    for done, ((name, rate, _), result) in enumerate(zip(runs, Parallel(n_jobs=-1, return_as="generator")(tasks), strict=True), 1):
        fits.setdefault((name, rate), []).append(result)
        print(f"\r{done} of {len(runs)} networks trained", end="", flush=True)
    print()
    return {name: min((fits[name, rate] for rate in RATES), key=mean_error) for name in LOSSES}


def mean_error(fits: Sequence[Fit]) -> float:
    return sum(one.mae for one in fits) / len(fits)


def report(best: dict[str, list[Fit]]) -> str:
    lines = [f"{'loss':<12} {'MAE':>15} {'Pearson':>15}   (unseen half, mean and standard deviation of {len(SEEDS)} seeds)"]
    for name, fits in best.items():
        columns = (torch.tensor([one.mae for one in fits]), torch.tensor([one.pearson for one in fits]))
        cells = (f"{float(c.mean()):.3f} ({float(c.std(correction=0)):.3f})" for c in columns)
        lines.append(f"{name:<12} " + " ".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def draw(best: dict[str, list[Fit]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    x, y = squared_sine()
    figure, axes = plt.subplots(len(best), 1, figsize=(9, 7.2), sharex=True, sharey=True, layout="constrained")
    for axis, (name, fits) in zip(axes, best.items(), strict=True):
        curves = torch.stack([one.curve for one in fits])
        mean, spread = curves.mean(0), curves.std(0, correction=0)
        axis.plot(x[:, 0], y[:, 0], color="#bbbbbb", linewidth=2.5, label="truth")
        axis.fill_between(x[:, 0], mean - spread, mean + spread, color=COLOURS[name], alpha=0.25, linewidth=0)
        axis.plot(x[:, 0], mean, color=COLOURS[name], linewidth=1.2, label=name)
        axis.set_ylim(-3.4, 3.4)
        axis.legend(loc="upper center", ncols=2, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
        error = f"MAE {mean_error(fits):.2f}"
        axis.text(0.995, 0.06, error, transform=axis.transAxes, ha="right", color="#555555")
    axes[-1].set_xlabel("x")
    figure.suptitle("Squared sine: the same network, four losses (mean and spread of three seeds)", fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gar-demo"), help="folder for the picture (default: gar-demo)")
    parser.add_argument("--epochs", type=int, default=300)
    arguments = parser.parse_args()
    best = fit_all(arguments.epochs)
    print(report(best))
    picture = arguments.out / "squared_sine.png"
    draw(best, picture)
    print(f"\nThe picture is in {picture}")


if __name__ == "__main__":
    main()
