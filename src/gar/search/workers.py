"""Those who compute: this process alone, or workers of joblib, on the engine of the context."""

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice, starmap
from numbers import Integral
from typing import Any, TypeVar

import joblib

from gar.errors import InputError
from gar.search.backends import is_on_cluster, sharing

T = TypeVar("T")


def check_workers(workers: object) -> None:
    if isinstance(workers, bool) or not isinstance(workers, Integral) or workers == 0:
        raise InputError(f"workers={workers!r} is not a number of workers; use 1 or more, or -1 for one per core")


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A terminal sends Ctrl-C to workers too. Those started in here ignore it, for the process that started them ends them;
    on their own they would print where they were. It takes milliseconds, in which Ctrl-C is not heard here either."""
    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread decide about signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


class WorkerPool:
    """Workers that take one task after another.

    Args:
        workers: how many; -1 is one per core, 1 is this process alone.
    """

    def __init__(self, workers: int) -> None:
        check_workers(workers)
        self._workers = workers
        self.size: int = joblib.effective_n_jobs(workers)
        self.size_here = 1 if is_on_cluster() else self.size
        """How many share the memory of this machine, as far as is known."""

    def run(
        self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, shared: object, stop: Callable[[], bool]
    ) -> Generator[T]:
        """Yield what the function returns for each task, as it is finished. What all tasks share is sent to a cluster once.

        Once ``stop`` returns True, which is asked before the first task and after every one, nothing more is computed: workers that
        are still busy are stopped, as they are when the generator is closed.
        """
        if stop():
            return
        with closing(self._results(function, tasks, shared)) as results:
            for result in results:
                yield result
                if stop():
                    return

    def _results(self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], shared: object) -> Generator[T]:
        if self.size == 1:
            yield from starmap(function, tasks)
            return
        with sharing(shared):
            yield from self._side_by_side(joblib.delayed(function)(*task) for task in tasks)

    def _side_by_side(self, calls: Iterator[Any]) -> Generator[Any]:
        try:
            parallel = self._parallel(return_as="generator_unordered")
        except ValueError:  # not every backend can give results one by one
            yield from self._in_rounds(calls)
            return
        with _deaf_to_interrupts():
            results = parallel(calls)
        try:
            for result in results:  # noqa: UP028  ('yield from' would close them here, and not below)
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that results get lost, which is the purpose
                results.close()  # stops workers that are still busy

    def _in_rounds(self, calls: Iterator[Any]) -> Generator[Any]:
        """As many tasks as workers at a time, so that a record never waits for more than its round."""
        with self._parallel() as parallel:
            while batch := list(islice(calls, self.size)):
                yield from parallel(batch)

    def _parallel(self, **options: str) -> Any:
        return joblib.Parallel(n_jobs=self._workers, batch_size=1, mmap_mode="c", **options)
