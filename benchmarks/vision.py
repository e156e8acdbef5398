"""Do the networks for images learn? 1000 generated dials, each method of the paper on one core of a CPU.

    python -m benchmarks.vision            # 15 epochs on views of 32 x 32: some minutes
    python -m benchmarks.vision --quick    # one epoch on 100 images, to see that it runs

ResNet18 from scratch with MAE and with GAR, and Rank-N-Contrast followed by a linear probe with both: errors on the 200 test
images, in minutes, and the share of variance explained. Finished runs are kept in ``--out``; the same command resumes.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import torch

from gar.vision import ImageSettings, ImageTable, Machine, image_features, linear_probe, read_images, train_images, write_clocks

LOSSES = ("mae", "gar")
METRICS = ("mae", "pearson", "r2")
SIZE = 32
CPU = Machine(accelerator="cpu", workers=0)


def row(name: str, scores: Mapping[str, float], seconds: float) -> str:
    cells = [f"{scores[metric]:.3f}" if metric in scores else "" for metric in METRICS]
    return f"| {name} | {' | '.join(cells)} | {seconds:.0f} s |"


def scratch(table: ImageTable, settings: ImageSettings, folder: Path) -> str:
    start = time.process_time()
    test = train_images(table, settings, folder / settings.name, machine=CPU)["test"]
    return row(f"{settings.loss.upper()} from scratch", test, time.process_time() - start)


def probes(table: ImageTable, settings: ImageSettings, folder: Path) -> list[str]:
    start = time.process_time()
    run = folder / settings.name
    train_images(table, settings, run, machine=CPU)
    lines = [row("the encoder, by Rank-N-Contrast", {}, time.process_time() - start)]
    parts = image_features(table, run / "last.ckpt", size=SIZE)
    for loss in LOSSES:
        start = time.process_time()
        best = linear_probe(parts["train"], parts["val"], parts["test"], loss=loss, seeds=(1,)).best
        scores = {metric: best.mean("test", metric) for metric in METRICS}
        lines.append(row(f"{loss.upper()} on its features", scores, time.process_time() - start))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--out", type=Path, help="folder of images and runs [default: a temporary one]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        count, epochs = (100, 1) if options.quick else (1000, options.epochs)
        table = read_images(write_clocks(folder / "clocks", count=count), target="minutes")
        print("| network | MAE | Pearson | R2 | seconds of one core |\n|---|---|---|---|---|")
        for loss in LOSSES:
            print(scratch(table, ImageSettings(loss=loss, epochs=epochs, size=SIZE), folder), flush=True)
        for line in probes(table, ImageSettings(loss="rnc", epochs=epochs, size=SIZE), folder):
            print(line)


if __name__ == "__main__":
    main()
