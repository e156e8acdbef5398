"""Who computes: processes of this machine, or a cluster of Dask or Ray, each behind joblib's one interface.

Chunks are tasks without state, so a worker that is lost costs its chunk's time and nothing else: both engines give the chunk to
another. Records are written by the process that calls :func:`gar.search.search`, whoever computes.
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

from gar.errors import InputError

CLUSTERS = ("dask", "ray")
"""Engines that may reach over several hosts."""

_PATIENCE = 20.0  # seconds to wait for a scheduler to answer


class _Backend(NamedTuple):
    name: str
    options: dict[str, Any]
    """What joblib needs to find it."""

    def in_joblib(self, **more: Any) -> AbstractContextManager[Any]:
        """What joblib computes inside this context, it computes here."""
        try:
            return joblib.parallel_config(backend=self.name, **self.options, **more)  # type: ignore[no-any-return]
        except ValueError as error:
            raise InputError(
                f"backend={self.name!r} is not known to joblib ({error}); use 'loky', 'dask', 'ray' or None"
            ) from error


_current: ContextVar[_Backend | None] = ContextVar("engine", default=None)


@contextmanager
def parallel_backend(backend: str | None = None, *, address: str | None = None, workers: int = -1) -> Iterator[None]:
    """Inside this context, searches compute on an engine.

    Args:
        backend: ``"dask"`` or ``"ray"``; or any other backend of joblib, such as ``"loky"``; None is what
            ``joblib.parallel_config`` says, or else loky: processes of this machine.
        address: of a running cluster: ``tcp://host:8786`` of a Dask scheduler, ``host:6379`` of a Ray head, or ``"auto"`` for the
            Ray of this machine. Without it, a Dask client or Ray session that is open already is used, or else a cluster of this
            machine is started, and ended with the context.
        workers: of a cluster that is started here; -1 is one per core.

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
    with _opened(backend, address, workers) as engine, engine.in_joblib():
        token = _current.set(engine)
        try:
            yield
        finally:
            _current.reset(token)


def is_on_cluster() -> bool:
    """Whether the engine of the context is Dask or Ray."""
    engine = _current.get()
    return engine is not None and engine.name in CLUSTERS


def sharing(table: object) -> AbstractContextManager[Any]:
    """Inside this context, a cluster is sent the table once for each host, and not with every chunk."""
    engine = _current.get()
    return engine.in_joblib(scatter=[table]) if engine is not None and is_on_cluster() else nullcontext()


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
    where: dict[str, Any] = {"address": address, "timeout": _PATIENCE}
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
    is_ours = not ray.is_initialized()
    if is_ours:
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
        if is_ours:
            ray.shutdown()
