"""The context of a run: where to compute, what to keep on disk, what to show, and when to stop. It changes no result."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, starmap
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import joblib
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

from gar.errors import InputError
from gar.files import write_whole
from gar.search.backends import CURRENT, parallel_backend
from gar.search.progress import EpochState, Progress
from gar.workers import end_with_parent

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Where and how to compute; one context is shared by all searches of a run.

    Args:
        records: folder for finished work; the same run continues from it. None keeps nothing.
        workers: number of processes; -1 is one per core, 1 is this process alone.
        backend: ``"loky"``, ``"dask"``, ``"ray"`` or another backend of joblib; None is joblib's current one, by default loky.
        address: address of a running cluster of Dask or Ray.
        progress: whether to show a progress line on stderr; or a function, called every second with the share that is done.
        label: text before the progress line.
        deadline: when to stop, on the clock of ``time.monotonic``; None is never.
    """

    records: str | os.PathLike[str] | None = None
    workers: int = 1
    backend: str | None = None
    address: str | None = None
    progress: bool | Callable[[float], None] = False
    label: str = ""
    deadline: float | None = None

    def __post_init__(self) -> None:
        workers: object = self.workers
        if isinstance(workers, bool) or not isinstance(workers, Integral) or workers == 0:
            raise InputError(f"workers={workers!r} is not a number of workers; use 1 or more, or -1 for one per core")

    @contextmanager
    def worker_pool(self) -> "Iterator[WorkerPool]":
        """Open the parallel backend, and yield a pool of workers on it."""
        uses_current = self.backend is None and self.address is None
        with nullcontext() if uses_current else parallel_backend(self.backend, address=self.address, workers=self.workers):
            yield WorkerPool(self.workers)

    def map(self, function: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """Call a function with each of these arguments, several at a time."""
        tasks = ((number, function, *one) for number, one in enumerate(arguments))
        with self.worker_pool() as pool:
            results = dict(pool.run(_numbered, tasks, stop=lambda: False))
        return [results[number] for number in range(len(arguments))]

    def start_workers(self) -> None:
        """Start the worker processes, so that the first loss does not seem slower than the others."""
        self.map(_do_nothing, [()] * joblib.effective_n_jobs(self.workers))

    def is_late(self) -> bool:
        """Return True once the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def labelled(self, label: str) -> "RunContext":
        """Return the same context with another text before the progress line."""
        return replace(self, label=label)

    def with_share(self, share: float) -> "RunContext":
        """Return the same context with a deadline after this share of the time that is left."""
        now = time.monotonic()
        return self if self.deadline is None else replace(self, deadline=now + share * (self.deadline - now))

    def wall_clock_deadline(self) -> float | None:
        """Return the deadline on the clock of ``time.time``, for worker processes; None is never."""
        return None if self.deadline is None else time.time() + self.deadline - time.monotonic()

    def show_progress(
        self, total: int, done: int, metric: str, running: Callable[[], EpochState] | None = None
    ) -> "closing[Progress]":
        """Show a progress line, if wanted, until the context ends; ``running`` tells how far unfinished models are."""
        stream, report = sys.stderr if self.progress is True else None, self.progress if callable(self.progress) else None
        return closing(Progress(stream, total, done, metric, label=self.label, running=running, report=report))

    def stopwatch(self, key: str) -> "closing[Stopwatch]":
        """Count the seconds of a search in a file beside its records; a continued search counts on from its earlier part."""
        return closing(Stopwatch(None if self.records is None else Path(self.records) / f"{key[:16]}.seconds"))


ALONE = RunContext()
"""This process alone, without records or progress."""


def _numbered(number: int, function: Callable[..., T], *arguments: Any) -> tuple[int, T]:
    return number, function(*arguments)


def _do_nothing() -> None:
    """Do nothing: a worker that was sent this function has imported all that training needs."""


class WorkerError(OSError):
    """A worker process was lost, and with it the chunk that it was at."""


class WorkerPool:
    """Worker pool: this process, or joblib workers on the current parallel backend, which take one task after another.

    Args:
        workers: number of workers; -1 is one per core, 1 is this process alone.
    """

    def __init__(self, workers: int) -> None:
        self._workers, self._backend = workers, CURRENT.get()
        self._is_on_cluster = self._backend is not None and self._backend.is_cluster
        self.size: int = joblib.effective_n_jobs(workers)
        self.size_here = 1 if self._is_on_cluster else self.size
        """Number of workers that share the memory of this machine, as far as is known."""

    def run(
        self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, stop: Callable[[], bool], shared: object = None
    ) -> Generator[T]:
        """Yield the result of each task as it is finished. A cluster is sent the ``shared`` argument of all tasks once per host.

        ``stop`` is called before the first task and after every one. Once it returns True, nothing more is computed: busy workers
        are stopped, as they are when the generator is closed.
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
        backend = self._backend
        sent_once = {} if shared is None else {"scatter": [shared]}
        with backend.in_joblib(**sent_once) if backend is not None and self._is_on_cluster else nullcontext():
            yield from self._results_in_parallel(joblib.delayed(function)(*task) for task in tasks)

    def _results_in_parallel(self, calls: Iterator[Any]) -> Generator[Any]:
        try:
            parallel = self._parallel(return_as="generator_unordered")
        except ValueError:  # not every backend can return results one by one
            yield from self._results_in_rounds(calls)
            return
        with _ignoring_interrupts():
            results = parallel(calls)
        try:
            for result in results:  # noqa: UP028  ('yield from' would close them here, and not below)
                yield result
        except TerminatedWorkerError as error:
            codes = next((line for line in str(error).splitlines() if "exit codes" in line), "their exit codes are unknown")
            raise WorkerError(
                f"a worker process was ended from outside, perhaps for want of memory ({codes}); use fewer workers. Run the same "
                "again to go on: what was recorded is kept"
            ) from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that results get lost, which is the purpose
                results.close()  # stops workers that are still busy

    def _results_in_rounds(self, calls: Iterator[Any]) -> Generator[Any]:
        """Compute as many tasks at a time as there are workers, so that a record never waits for more than its round."""
        with self._parallel() as parallel:
            while batch := list(islice(calls, self.size)):
                yield from parallel(batch)

    def _parallel(self, **options: Any) -> Any:
        options |= end_with_parent()
        return joblib.Parallel(n_jobs=self._workers, batch_size=1, mmap_mode="c", **options)


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Let workers that are started in this context ignore Ctrl-C.

    A terminal sends it to them too, and each would print a traceback; the process that started them ends them. For the
    milliseconds that this takes, Ctrl-C is ignored here as well.
    """
    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread handle signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: one task runs per core, and the order of a sum does not depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Stopwatch:
    """Counts on from the seconds in its file, and writes the new count there."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._before, self._start = self._recorded(), time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds of this and earlier parts."""
        return self._before + time.monotonic() - self._start

    def close(self) -> None:
        """Write the count."""
        if self._file is not None and self._file.parent.is_dir():
            write_whole(self._file, f"{self.seconds:.3f}".encode())

    def _recorded(self) -> float:
        try:
            return 0.0 if self._file is None else max(0.0, float(self._file.read_text()))
        except (OSError, ValueError):
            return 0.0
