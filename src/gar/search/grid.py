"""The search: what is known already, what is missing, who computes it."""

from collections.abc import Hashable

import numpy as np
import torch

from gar.errors import whole_number
from gar.search.backends import parallel_backend
from gar.search.context import ALONE, RunContext
from gar.search.fingerprints import model_keys
from gar.search.loop import train_missing
from gar.search.records import Records
from gar.search.tasks import Job, one_thread, train_chunk
from gar.search.workers import WorkerPool
from gar.stack import History, Models, StackData, TrainSettings, chunks
from gar.stack.memory import check_memory
from gar.stack.packing import network_layout
from gar.stack.training import check_training

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
    """Train all models, several at a time, and remember on disk what is finished.

    Args:
        data: the table and its folds.
        models: what the models differ in. A model that occurs twice is trained once.
        settings: what they have in common.
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
    check_training(data, models, settings, dtype)
    with parallel_backend(context.backend, address=context.address, workers=context.workers):
        pool = WorkerPool(context.workers)
        check_memory(data, models, settings, dtype=dtype, chunk_size=chunk_size, workers=pool.size_here)
        return _search(data, models, Job(settings, device, dtype), pool, context, chunk_size)


def _search(
    data: StackData,
    models: Models,
    job: Job,
    pool: WorkerPool,
    context: RunContext,
    chunk_size: int | None,
) -> History:
    settings, dtype = job.settings, job.dtype
    distinct, order = _distinct(models)
    history = History.empty(network_layout(data, settings), len(distinct), settings, dtype=dtype)
    store = None if context.records is None else Records(context.records, data, settings, device=job.device, dtype=dtype)

    def cut(missing: Models) -> list[np.ndarray]:
        return _cut(data, missing, settings, pool.size, chunk_size, dtype)

    with one_thread():
        train_missing(
            history, data, distinct, train_chunk, job, store=store, cut=cut, monitor=settings.monitor, pool=pool, context=context
        )
    return history if len(distinct) == len(models) else history.take(order)


def _distinct(models: Models) -> tuple[Models, np.ndarray]:
    """Every model once, and for each model its place among these."""
    first: dict[Hashable, int] = {}
    keys = model_keys(models)
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    rank = {key: number for number, key in enumerate(first)}
    return models.take(list(first.values())), np.array([rank[key] for key in keys], dtype=np.int64)


def _cut(
    data: StackData, models: Models, settings: TrainSettings, workers: int, limit: int | None, dtype: torch.dtype
) -> list[np.ndarray]:
    """Chunks that fit the cache, and for several workers in whole rounds, so that all are busy to the end."""
    plan = chunks(data, models, settings, limit=limit, dtype=dtype)
    if limit is not None or workers == 1 or not plan:
        return plan
    return chunks(data, models, settings, limit=even_share(len(models), len(plan), workers), dtype=dtype)


def even_share(models: int, chunks_in_cache: int, workers: int) -> int:
    """The most models of a chunk, if every worker gets equally many chunks."""
    rounds = max(min(_ROUNDS, models // (workers * _MANY)), -(-chunks_in_cache // workers))
    return -(-models // (rounds * workers))
