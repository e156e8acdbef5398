"""How long the paper's whole grid takes on 1 to 1000 cores, from chunk times measured on this machine, and what limits it.

    python -m benchmarks.cluster --measure     # chunk times into benchmarks/records/cluster.json; needs the data sets
    python -m benchmarks.cluster               # simulate from that file
    python -m benchmarks.cluster --scaling     # one real search on 1 and on 2 workers, in turns; leave the machine alone meanwhile

A chunk of m models costs, for every model, ``b + a / m``: work of its own, and a share of what is done once a step. Both are
measured for every loss, network and batch size, as processor time, which a busy machine hardly changes. The simulation then
schedules chunks as a search does: each goes to the first free worker.
"""

import argparse
import heapq
import json
import math
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch

from gar.search import RunContext, one_thread, search
from gar.search.grid import even_share
from gar.search.records import Records
from gar.stack import Models, StackData, TrainSettings, chunks, train
from gar_reproduction.cell import Cell, flops
from gar_reproduction.experiments import CELL_EXPERIMENTS, cells

RECORD = Path(__file__).parent / "records" / "cluster.json"
CORES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
_BATCHES, _MANY = 4, 12


class Work(NamedTuple):
    """An experiment cell as the simulation sees it."""

    name: str
    models: int
    most: int
    """Models of the largest chunk that fits the cache."""
    alone: float
    """Seconds of one core for a chunk of one model."""
    beside: float
    """Seconds that each further model of a chunk adds."""

    def chunk_seconds(self, models: int) -> float:
        return self.alone + (models - 1) * self.beside

    def cut(self, workers: int) -> list[int]:
        """Return the sizes of chunks, as a search on this number of workers cuts them."""
        most = self.most
        if workers > 1:
            most = min(most, even_share(self.models, math.ceil(self.models / most), workers))
        parts = math.ceil(self.models / most)
        return [len(part) for part in np.array_split(np.arange(self.models), parts)]


class Outcome(NamedTuple):
    """Seconds of all searches, and where those beyond an even share of the work come from."""

    seconds: float
    small_chunks: float
    """More workers mean smaller chunks, whose models share less."""
    waiting: float
    """Workers without a chunk at the end of a search, until the last one is done."""
    driver: float
    """The one process that hands out chunks and writes records."""

    @property
    def limit(self) -> str:
        losses = {"small chunks": self.small_chunks, "waiting for the last chunks": self.waiting, "the driver": self.driver}
        name = max(losses, key=lambda name: losses[name])
        return name if losses[name] > 0.05 * self.seconds else "nothing"


def simulate(grid: Sequence[Work], workers: int, driver_seconds: float) -> Outcome:
    """Simulate searches one after another, as ``gar reproduce all`` runs them."""
    total, small, waiting, driver = 0.0, 0.0, 0.0, 0.0
    for work in grid:
        times = [work.chunk_seconds(size) for size in work.cut(workers)]
        best = sum(work.chunk_seconds(size) for size in work.cut(1))
        free_driver, seconds = (makespan(times, workers, cost) for cost in (0.0, driver_seconds))
        total += seconds
        small += (sum(times) - best) / workers
        waiting += free_driver - sum(times) / workers
        driver += seconds - free_driver
    return Outcome(total, small, waiting, driver)


def makespan(times: Sequence[float], workers: int, driver_seconds: float) -> float:
    """Return the time of list scheduling: the next chunk goes to the first free worker, once the driver hands it out."""
    free = [0.0] * workers
    for number, seconds in enumerate(times, 1):
        start = max(heapq.heappop(free), number * driver_seconds)
        heapq.heappush(free, start + seconds)
    return max(free)


def measure(experiments: Sequence[str]) -> dict[str, Any]:
    seen, grid = set(), []
    for cell in (cell for name in experiments for cell in cells(name)):
        if cell.plan + cell.task in seen:  # some experiments only show others again
            continue
        seen.add(cell.plan + cell.task)
        data = cell.load()
        share = flops(data, cell.models, cell.settings) / len(cell.models)
        alone, many = (share * _seconds_per_flop(*_signature(cell, data), models=models) for models in (1, _MANY))
        beside = max(0.0, (many * _MANY - alone) / (_MANY - 1))
        plan = chunks(data, cell.models, cell.settings, limit=None, dtype=torch.float32)
        grid.append(Work(cell.name, len(cell.models), max(map(len, plan)), alone, beside)._asdict())
        print(f"{cell.name:<44} {len(cell.models):>5} models, {alone:.3g} s alone, {beside:.3g} s beside others", flush=True)
    return {"driver_seconds": _driver_seconds(), "units": grid}


def _signature(cell: Cell, data: StackData) -> tuple[str, tuple[int, ...], int, str]:
    settings = cell.settings
    return settings.loss, (data.inputs, *settings.hidden_sizes, data.y.shape[1]), settings.batch_size, settings.optimizer


@cache
def _seconds_per_flop(loss: str, sizes: tuple[int, ...], batch_size: int, optimizer: str, *, models: int) -> float:
    """Return the time of one model in a chunk of ``models``, by a short training on random numbers; the better of two."""
    rng, rows = np.random.default_rng(0), _BATCHES * batch_size
    data = StackData(
        rng.normal(size=(2 * rows, sizes[0])),
        rng.normal(size=(2 * rows, sizes[-1])),
        [(np.arange(rows), np.arange(rows, rows + rows // 4), np.arange(rows + rows // 4, 2 * rows))],
    )
    settings = TrainSettings(hidden_sizes=sizes[1:-1], batch_size=batch_size, optimizer=optimizer, loss=loss, epochs=2)  # type: ignore[arg-type]
    chosen = Models(learning_rate=np.full(models, 1e-5), parameter=None if settings.spec.parameter is None else 1.0)
    with one_thread():
        turns = [_processor_seconds(data, chosen, settings) for _ in range(2)]
    return min(turns) / flops(data, chosen, settings)


def _processor_seconds(data: StackData, models: Models, settings: TrainSettings) -> float:
    start = time.process_time()
    train(data, models, settings, chunk_size=len(models))
    return time.process_time() - start


def _driver_seconds(chunks_written: int = 40) -> float:
    """Return what a chunk costs the driver: handing it out, receiving its history, writing its record."""
    data, models, settings = _example(epochs=100)
    history = train(data, models.take(range(5)), settings)
    with tempfile.TemporaryDirectory() as folder:
        records = Records(folder, data, settings, device="cpu", dtype=torch.float32)
        start = time.process_time()
        for number in range(chunks_written):
            records.write(models.take(range(number % 5, 5 + number % 5)), history)
        joblib.Parallel(n_jobs=2)(joblib.delayed(_same)(history) for _ in range(chunks_written))
        return (time.process_time() - start) / chunks_written


def _same(value: object) -> object:
    return value


def _example(epochs: int) -> tuple[StackData, Models, TrainSettings]:
    """Return random data of the size of the paper's smallest table: 1030 rows, 8 features, five folds."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1030, 8))
    folds = [(np.arange(659), np.arange(659, 824), np.arange(824, 1030))] * 5
    models = Models.grid(
        folds=range(5), learning_rates=(1e-2, 1e-3, 1e-4), weight_decays=(0.0, 1e-4, 1e-3), parameters=(0.1, 1, 10)
    )
    return StackData(x, x.sum(1), folds), models, TrainSettings(epochs=epochs, batch_size=256)


def scaling(epochs: int) -> None:
    """Print the efficiency from one to two workers, in the best of three turns each."""
    data, models, settings = _example(epochs)
    best = {1: float("inf"), 2: float("inf")}
    search(data, models, TrainSettings(epochs=1, batch_size=256), context=RunContext(workers=2))  # start the workers
    for _ in range(3):
        for workers in best:
            start = time.perf_counter()
            search(data, models, settings, context=RunContext(workers=workers))
            best[workers] = min(best[workers], time.perf_counter() - start)
    one, two = best[1], best[2]
    print(f"{len(models)} models, {epochs} epochs: {one:.2f} s on 1 worker, {two:.2f} s on 2: efficiency {one / two / 2:.0%}")


def read_record(path: Path = RECORD) -> dict[str, Any]:
    return json.loads(path.read_text())


def table(record: dict[str, Any]) -> str:
    grid, driver = [Work(**unit) for unit in record["units"]], record["driver_seconds"]
    alone = simulate(grid, 1, driver).seconds
    lines = ["| cores | hours | efficiency | limited by |", "| --- | --- | --- | --- |"]
    for cores in CORES:
        found = simulate(grid, cores, driver)
        lines.append(f"| {cores} | {found.seconds / 3600:.3g} | {alone / cores / found.seconds:.0%} | {found.limit} |")
    return "\n".join(lines)


def show(record: dict[str, Any]) -> None:
    models, driver = sum(unit["models"] for unit in record["units"]), record["driver_seconds"]
    print(f"{len(record['units'])} searches, {models} models; each chunk takes {driver * 1e3:.1f} ms of the driver\n")
    print(table(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure chunk times on this machine")
    parser.add_argument("--experiments", nargs="+", default=list(CELL_EXPERIMENTS), help="of 'gar reproduce' (default: all)")
    parser.add_argument("--scaling", action="store_true", help="measure a real search on 1 and on 2 workers")
    parser.add_argument("--epochs", type=int, default=100, help="of that search")
    parser.add_argument("--record", type=Path, default=RECORD, help="file of measured times")
    arguments = parser.parse_args()
    if arguments.scaling:
        scaling(arguments.epochs)
        return
    if arguments.measure:
        record = measure(arguments.experiments)
        arguments.record.parent.mkdir(parents=True, exist_ok=True)
        arguments.record.write_text(json.dumps(record, indent=1) + "\n")
    show(read_record(arguments.record))


if __name__ == "__main__":
    main()
