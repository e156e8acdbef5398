"""Parallel backends and worker pools: processes of this machine, or a cluster of Dask or Ray, each behind joblib's interface.

Chunks are tasks without state, so a worker that is lost costs its chunk's time and nothing else: a cluster gives the chunk to
another worker. Records are written by the process that calls :func:`gar.search.search`, on every backend.
"""

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from itertools import islice, starmap
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import joblib
import torch

from gar.errors import InputError

T = TypeVar("T")

CLUSTERS = ("dask", "ray")
"""Backends that may extend over several hosts."""

_CONNECT_SECONDS = 20.0  # how long to wait for a scheduler to answer


def check_workers(workers: object) -> None:
    """Raise an error if this is not a number of workers."""
    if isinstance(workers, bool) or not isinstance(workers, Integral) or workers == 0:
        raise InputError(f"workers={workers!r} is not a number of workers; use 1 or more, or -1 for one per core")


# ---- Parallel backends


class _Backend(NamedTuple):
    name: str
    options: dict[str, Any]
    """Options that joblib needs to find it."""

    def in_joblib(self, **more: Any) -> AbstractContextManager[Any]:
        """Return a context in which joblib computes on this backend."""
        try:
            return joblib.parallel_config(backend=self.name, **self.options, **more)  # type: ignore[no-any-return]
        except ValueError as error:
            raise InputError(
                f"backend={self.name!r} is not known to joblib ({error}); use 'loky', 'dask', 'ray' or None"
            ) from error


_current: ContextVar[_Backend | None] = ContextVar("parallel_backend", default=None)


@contextmanager
def parallel_backend(backend: str | None = None, *, address: str | None = None, workers: int = -1) -> Iterator[None]:
    """Open a parallel backend, on which searches compute inside this context.

    Args:
        backend: ``"dask"`` or ``"ray"``; or any other backend of joblib, such as ``"loky"``; None is joblib's current one, as set
            by ``joblib.parallel_config``, or else loky: processes of this machine.
        address: address of a running cluster: ``tcp://host:8786`` of a Dask scheduler, ``host:6379`` of a Ray head, or ``"auto"``
            for the Ray of this machine. Without it, an open Dask client or Ray session is used, or else a cluster of this machine
            is started, and ended with the context.
        workers: number of workers of a cluster that is started here; -1 is one per core.

    Example:
        >>> with parallel_backend("loky"):
        ...     joblib.effective_n_jobs(2)
        2
    """
    if address is not None and backend not in CLUSTERS:
        raise InputError(f"address={address!r} is of no use to backend={backend!r}; choose backend 'dask' or 'ray'")
    if backend is None:
        yield
        return
    with _opened(backend, address, workers) as opened, opened.in_joblib():
        token = _current.set(opened)
        try:
            yield
        finally:
            _current.reset(token)


def is_on_cluster() -> bool:
    """Return True if the current backend is Dask or Ray."""
    backend = _current.get()
    return backend is not None and backend.name in CLUSTERS


def _opened(backend: str, address: str | None, workers: int) -> AbstractContextManager[_Backend]:
    if backend == "dask":
        return _dask(address, workers)
    return _ray(address, workers) if backend == "ray" else nullcontext(_Backend(backend, {}))


def _package(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(f"backend={extra!r} needs the package {name}; install it with: pip install 'gar[{extra}]'") from error


@contextmanager
def _dask(address: str | None, workers: int) -> Iterator[_Backend]:
    distributed = _package("distributed", "dask")
    client = _open_client(distributed) if address is None else None
    if client is not None:
        yield _Backend("dask", {"client": client})
        return
    where: dict[str, Any] = {"address": address, "timeout": _CONNECT_SECONDS}
    if address is None:
        where = {"n_workers": _cores(workers), "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.ERROR}
    try:
        client = distributed.Client(**where, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({error}); start one with 'dask scheduler', and pass the address it prints"
        ) from error
    with client:
        yield _Backend("dask", {"client": client})


def _open_client(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _cores(workers: int) -> int:
    return joblib.cpu_count() if workers < 0 else workers


@contextmanager
def _ray(address: str | None, workers: int) -> Iterator[_Backend]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no report to its makers, and no message about that
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the coming default; Ray warns where it is not chosen
    ray = _package("ray", "ray")
    from gar.search.ray_backend import RayBackend

    joblib.register_parallel_backend("ray", RayBackend)
    starts_ray = not ray.is_initialized()
    if starts_ray:
        where: dict[str, Any] = {"address": address}
        if address is None:
            where = {"address": "local", "num_cpus": _cores(workers), "include_dashboard": False}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(**where, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(
                f"no Ray answers at {address!r} ({error}); start it with 'ray start --head', and pass the address that it prints"
            ) from error
    try:
        yield _Backend("ray", {})
    finally:
        if starts_ray:
            ray.shutdown()


# ---- Worker pools


class WorkerPool:
    """Worker pool: this process, or joblib workers on the current parallel backend, which take one task after another.

    Args:
        workers: number of workers; -1 is one per core, 1 is this process alone.
    """

    def __init__(self, workers: int) -> None:
        check_workers(workers)
        self._workers = workers
        self.size: int = joblib.effective_n_jobs(workers)
        self.size_here = 1 if is_on_cluster() else self.size
        """Number of workers that share the memory of this machine, as far as is known."""

    def run(
        self, function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, shared: object, stop: Callable[[], bool]
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
        backend = _current.get()
        with backend.in_joblib(scatter=[shared]) if backend is not None and is_on_cluster() else nullcontext():
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
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that results get lost, which is the purpose
                results.close()  # stops workers that are still busy

    def _results_in_rounds(self, calls: Iterator[Any]) -> Generator[Any]:
        """Compute as many tasks at a time as there are workers, so that a record never waits for more than its round."""
        with self._parallel() as parallel:
            while batch := list(islice(calls, self.size)):
                yield from parallel(batch)

    def _parallel(self, **options: str) -> Any:
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
