"""The search of a grid: read what is recorded, train what is missing, chunk by chunk, on a pool of workers."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gar.search.context import ALONE, RunContext, WorkerPool, one_thread
from gar.search.progress import EpochBoard, best_score, report_epochs
from gar.search.records import H, Records, RecordStore, read_records
from gar.stack import History, Models, Observer, StackData, StackedMLP, TrainSettings, chunks, train
from gar.stack.chunking import check_memory, check_training
from gar.validation import whole_number

_ROUNDS = 2
"""Chunks that each of several workers gets at least, if they are not too small: a slow one then holds up the others for half as
long. More, and smaller, chunks cost more than that saves."""

_MANY = 32
"""With fewer models than this a chunk is too small to be cut for that purpose."""


def search(
    data: StackData,
    models: Models,
    settings: TrainSettings,
    *,
    context: RunContext = ALONE,
    chunk_size: int | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> History:
    """Train all models, several at a time, and record on disk what is finished.

    Args:
        data: the table and its folds.
        models: what the models differ in. A model that occurs twice is trained once.
        settings: what they share.
        context: where and how to compute. With ``records``, the same search continues where it was interrupted, and a larger one
            trains only what is new; other data or settings never meet these records. Once the deadline has passed, nothing more is
            trained: what is missing in the history has ``epochs_run`` 0 and no failed epoch, and the same search can go on later.
        chunk_size: the most models of a task; None chooses it for the cache and so that no worker is idle before the end.
        device: where to train.
        dtype: float32 or float64.

    Returns:
        The history in the order of ``models``. On the CPU, records, workers, backend and chunk size change no bit of it.

    Ctrl-C stops the workers of loky and keeps all records. Other backends of joblib keep them too, but threads finish their chunk
    first, and processes of ``"multiprocessing"`` may have to be ended by hand.

    Example:
        >>> import numpy as np
        >>> from gar.stack import Models, StackData, TrainSettings
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> data = StackData(x, x.sum(1), [(np.arange(40), np.arange(40, 50), np.arange(50, 60))])
        >>> search(data, Models.grid(learning_rates=(0.1, 0.01)), TrainSettings(epochs=2, batch_size=20))
        History(models=2, epochs=2, sizes=(3, 16, 32, 16, 8, 1), failed=0)
    """
    if chunk_size is not None:
        whole_number(chunk_size, "chunk_size")
    distinct, order = _distinct(models)
    check_training(data, models, settings, dtype)
    with context.worker_pool() as pool:
        check_memory(data, models, settings, dtype=dtype, chunk_size=chunk_size, workers=pool.size_here)
        history = History.empty(settings.layout(data), len(distinct), settings, dtype=dtype)
        store = None if context.records is None else Records(context.records, data, settings, device=device, dtype=dtype)
        missing = np.arange(len(distinct)) if store is None else read_records(store, distinct, history)
        plan = [missing[indices] for indices in _cut(data, distinct.take(missing), settings, pool.size, chunk_size, dtype)]
        with EpochBoard(len(plan), settings.epochs) if context.progress else nullcontext() as board:
            job = Job(settings, device, dtype, context.wall_clock_deadline(), None if board is None else board.path)
            train_chunks(train_chunk, job, data, distinct, plan, history, store, settings.monitor, pool, context, board)
    return history if len(distinct) == len(models) else history.take(order)


def train_chunks(
    function: Callable[..., tuple[int, H]],
    job: object,
    data: StackData,
    models: Models,
    plan: Sequence[np.ndarray],
    history: H,
    store: RecordStore[H] | None,
    monitor: str,
    pool: WorkerPool,
    context: RunContext,
    board: EpochBoard | None = None,
) -> bool:
    """Train every chunk of a plan, enter it into the history and record it; return False if the deadline passed before the end.

    ``function(number, shared data, models of the chunk, job)`` returns the number and the history of the chunk. A chunk that the
    deadline cut is entered but not recorded.
    """
    shared, left = to_shared(data), sum(map(len, plan))
    tasks = ((number, shared, models.take(indices), job) for number, indices in enumerate(plan))
    running = None if board is None else partial(board.state, [len(indices) for indices in plan])
    with one_thread(), context.show_progress(len(models), len(models) - left, monitor, running) as line:
        line.update(0, best_score(history.metrics, monitor))
        for number, part in pool.run(function, tasks, shared=shared, stop=context.is_late):
            history.put(plan[number], part)
            if not getattr(part, "is_cut", False):
                if store is not None:
                    store.write(models.take(plan[number]), part)
                left -= len(part)
            if board is not None:
                board.finish(number)
            line.update(len(part), best_score(part.metrics, monitor))
    return left == 0


def _distinct(models: Models) -> tuple[Models, np.ndarray]:
    """Return every model once, and for each model its index among these."""
    rank: dict[Hashable, int] = {}
    order = np.array([rank.setdefault(key, len(rank)) for key in models.identities()], dtype=np.int64)
    return models.take(np.unique(order, return_index=True)[1]), order


def _cut(
    data: StackData, models: Models, settings: TrainSettings, workers: int, limit: int | None, dtype: torch.dtype
) -> list[np.ndarray]:
    """Return chunks that fit the cache, and for several workers in whole rounds, so that all are busy to the end."""
    plan = chunks(data, models, settings, limit=limit, dtype=dtype)
    if limit is not None or workers == 1 or not plan:
        return plan
    return chunks(data, models, settings, limit=even_share(len(models), len(plan), workers), dtype=dtype)


def even_share(models: int, chunks_in_cache: int, workers: int) -> int:
    """Return the most models of a chunk, if every worker gets equally many chunks."""
    rounds = max(min(_ROUNDS, models // (workers * _MANY)), -(-chunks_in_cache // workers))
    return -(-models // (rounds * workers))


# ---- One chunk as one task


SharedData = Mapping[str, object]
"""The attributes of :class:`StackData`, tensors as arrays: joblib writes a large array to disk once, and every worker maps it
into its memory; a tensor would be copied for every task."""


@dataclass(frozen=True)
class Job:
    """What all chunks of a search share, besides the data."""

    settings: TrainSettings
    device: str | torch.device
    dtype: torch.dtype
    deadline: float | None = None
    """When to stop, on the clock of ``time.time``, which processes share."""
    board: Path | None = None
    """The file of the :class:`EpochBoard`."""

    def go_on(self, number: int, start: float, epochs: int) -> bool:
        """Report the epochs that a chunk has done since its start; return False if the next one would end after the deadline."""
        if self.board is not None:
            report_epochs(self.board, number, epochs)
        now = time.time()
        return self.deadline is None or now + (now - start) / max(epochs, 1) * bool(epochs) < self.deadline


def to_shared(data: StackData) -> SharedData:
    """Return the data in the form that is sent to workers."""
    return {
        name: value.numpy() if isinstance(value, Tensor) and value.dtype != torch.bfloat16 else value  # numpy has no bfloat16
        for name, value in vars(data).items()
    }


def train_chunk(number: int, shared: SharedData, models: Models, job: Job) -> tuple[int, History]:
    """Train some models as one stack, in one thread: one task runs per core."""
    data, go_on = from_shared(shared), partial(job.go_on, number, time.time())
    with one_thread():
        history = train(data, models, job.settings, device=job.device, dtype=job.dtype, chunk_size=len(models), go_on=go_on)
    return number, history


def from_shared(shared: SharedData) -> StackData:
    """Return the data that :func:`to_shared` was given; they were checked when they were made."""
    data = StackData.__new__(StackData)
    vars(data).update({name: torch.from_numpy(_writable(v)) if isinstance(v, np.ndarray) else v for name, v in shared.items()})
    data.folds = tuple(
        replace(fold, train=_writable(fold.train), valid=_writable(fold.valid), test=_writable(fold.test)) for fold in data.folds
    )
    return data


def _writable(array: np.ndarray) -> np.ndarray:
    """Return a copy of a read-only array, as some backends deliver; torch warns about them."""
    return np.require(array, requirements=["W"])


# ---- Retraining of winners


def retrain(
    data: StackData, models: Models, settings: TrainSettings, epochs: np.ndarray, *, observe: Observer | None = None
) -> StackedMLP:
    """Train the winners of a search again, and return each network as it was after its epoch.

    A search keeps no weights, since thousands of models would fill the disk. On the CPU, the winners retrained as one small stack
    give the same numbers as in the search, bit for bit.

    Args:
        data: the data of the search.
        models: the winners.
        settings: the settings of the search.
        epochs: the epoch of each winner, counted from 0.
        observe: called after every epoch, as in :func:`gar.stack.train`.
    """
    snapshots: dict[int, Tensor] = {}

    def snapshot(epoch: int, indices: np.ndarray, networks: StackedMLP) -> None:
        for row, index in enumerate(indices.tolist()):
            if epochs[index] == epoch:
                snapshots[index] = networks.weights[row].clone()
        if observe is not None:
            observe(epoch, indices, networks)

    with one_thread():
        history = train(data, models, settings, observe=snapshot)
    weights = next(iter(snapshots.values())).new_full((len(models), history.layout.length), np.nan)
    for index, row in snapshots.items():
        weights[index] = row
    return StackedMLP(history.layout, weights)
