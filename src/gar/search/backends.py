"""Parallel backends: processes of this machine, or a cluster of Dask or Ray, each behind joblib's interface.

Chunks are tasks without state, so a worker that is lost costs its chunk's time and nothing else: a cluster gives the chunk to
another worker. Records are written by the process that calls :func:`gar.search.search`, on every backend.
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple

import joblib

from gar.errors import InputError, how_to_install

CLUSTERS = ("dask", "ray")
"""Backends that may extend over several hosts."""

_CONNECT_SECONDS = 20.0  # how long to wait for a scheduler to answer


class Backend(NamedTuple):
    """A parallel backend of joblib."""

    name: str
    options: dict[str, Any]
    """Options that joblib needs to find it."""

    @property
    def is_cluster(self) -> bool:
        """Return True if it may extend over several hosts."""
        return self.name in CLUSTERS

    def in_joblib(self, **more: Any) -> AbstractContextManager[Any]:
        """Return a context in which joblib computes on this backend."""
        try:
            return joblib.parallel_config(backend=self.name, **self.options, **more)  # type: ignore[no-any-return]
        except ValueError as error:
            raise InputError(
                f"backend={self.name!r} is not known to joblib ({error}); use 'loky', 'dask', 'ray' or None"
            ) from error


CURRENT: ContextVar[Backend | None] = ContextVar("parallel_backend", default=None)
"""The backend that :func:`parallel_backend` has opened."""


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
        token = CURRENT.set(opened)
        try:
            yield
        finally:
            CURRENT.reset(token)


def _opened(backend: str, address: str | None, workers: int) -> AbstractContextManager[Backend]:
    if backend == "dask":
        return _dask(address, workers)
    return _ray(address, workers) if backend == "ray" else nullcontext(Backend(backend, {}))


def _package(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(f"backend={extra!r} needs the package {name}; {how_to_install(extra)}") from error


@contextmanager
def _dask(address: str | None, workers: int) -> Iterator[Backend]:
    distributed = _package("distributed", "dask")
    client = _open_client(distributed) if address is None else None
    if client is not None:
        yield Backend("dask", {"client": client})
        return
    where: dict[str, Any] = {"address": address, "timeout": _CONNECT_SECONDS}
    if address is None:
        loopback = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}  # a cluster of this machine listens to no other
        where = {"n_workers": _cores(workers), "threads_per_worker": 1, "silence_logs": logging.ERROR, **loopback}
    try:
        client = distributed.Client(**where, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r} ({error}); start one with 'dask scheduler', and pass the address it prints"
        ) from error
    with client:
        yield Backend("dask", {"client": client})


def _open_client(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _cores(workers: int) -> int:
    return joblib.cpu_count() if workers < 0 else workers


@contextmanager
def _ray(address: str | None, workers: int) -> Iterator[Backend]:
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
            with warnings.catch_warnings(), nullcontext() if address else _ray_on_loopback(ray):
                warnings.simplefilter("ignore")
                ray.init(**where, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(
                f"no Ray answers at {address!r} ({error}); start it with 'ray start --head', and pass the address that it prints"
            ) from error
    try:
        yield Backend("ray", {})
    finally:
        if starts_ray:
            ray.shutdown()


@contextmanager
def _ray_on_loopback(ray: Any) -> Iterator[None]:
    """Let a Ray that is started in this context listen to this machine alone.

    It takes 127.0.0.1 as the address of a node, and then binds to nothing else, only where it has no clusters: by default on
    Windows and macOS. ``ray.init`` has no argument for it, and puts another address in the place of a loopback one.
    """
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
