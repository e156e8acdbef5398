"""The loop of every search: recall recorded models, train the others, record each chunk as soon as it is finished."""

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol, TypeVar

import numpy as np

from gar.search.context import RunContext
from gar.search.fingerprints import model_keys
from gar.search.progress import Progress
from gar.search.selection import Measured, best_score
from gar.search.tasks import as_table
from gar.search.workers import WorkerPool
from gar.stack import Models, StackData

H = TypeVar("H", bound="Fillable")


class Fillable(Measured, Protocol):
    """A history into which the histories of some of its models can be entered."""

    def take(self: H, places: np.ndarray, /) -> H: ...
    def put(self: H, places: np.ndarray, part: H, /) -> None: ...


class Store(Protocol[H]):
    """Records of finished models on disk."""

    def read(self) -> Iterator[tuple[list[Hashable], H]]: ...
    def write(self, models: Any, history: H, /) -> None: ...


def train_missing(
    history: H,
    data: StackData,
    models: Models,
    function: Callable[..., tuple[int, H]],
    job: object,
    *,
    store: Store[H] | None,
    cut: Callable[[Models], Sequence[np.ndarray]],
    monitor: str,
    pool: WorkerPool,
    context: RunContext,
) -> bool:
    """Fill the empty history of distinct models; return False if the deadline passed before all were trained.

    ``cut`` divides the models that are not in the store into chunks. ``function`` trains one: it is called with the number of the
    chunk, the data as arrays, its models and the job, and returns the number and the history. ``monitor`` is the metric of the
    progress line.
    """
    missing = np.arange(len(models)) if store is None else _recall(store, models, history)
    stream = sys.stderr if context.progress else None
    bar = Progress(stream, len(models), len(models) - len(missing), monitor, label=context.label)
    bar.update(0, best_score(history, monitor))
    chunks, table, left = [missing[indices] for indices in cut(models.take(missing))], as_table(data), len(missing)
    tasks = ((number, table, models.take(indices), job) for number, indices in enumerate(chunks))
    with closing(bar):
        for number, part in pool.run(function, tasks, shared=table, stop=context.is_late):
            history.put(chunks[number], part)
            if store is not None:
                store.write(models.take(chunks[number]), part)
            bar.update(len(part), best_score(part, monitor))
            left -= len(part)
    return left == 0


def _recall(store: Store[H], models: Models, history: H) -> np.ndarray:
    """Enter recorded models into the history; return the indices of the others."""
    missing = {key: index for index, key in enumerate(model_keys(models))}
    for keys, part in store.read():
        rows = [row for row, key in enumerate(keys) if key in missing]
        indices = [missing.pop(keys[row]) for row in rows]
        history.put(np.array(indices, dtype=np.int64), part.take(np.array(rows, dtype=np.int64)))
    return np.array(list(missing.values()), dtype=np.int64)
