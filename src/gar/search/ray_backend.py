"""Ray as a joblib backend: chunks are tasks of Ray, each of which returns its result as soon as it is done.

``ray.util.joblib.register_ray`` is not used: it is a pool of actors that cannot return results one by one, so that records would
wait for a whole round, and a chunk whose actor dies is lost. Ray itself runs a task again elsewhere when its worker dies.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import ray
from joblib.parallel import ParallelBackendBase

_RETRIES = 3
"""How often a chunk is run again after its worker has died, as in Dask by default. More would spread a chunk that needs too much
memory over the whole cluster."""


class RayBackend(ParallelBackendBase):  # type: ignore[misc]
    """One call of joblib is one task of Ray.

    Args:
        scatter: objects that occur in many calls; Ray keeps one copy on each host.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, *, scatter: Sequence[object] = (), **more: Any) -> None:
        super().__init__(**more)
        self._shared = list(scatter)  # so that no other object gets the same id
        self._references = {id(value): ray.put(value) for value in self._shared}
        self._running: set[Any] = set()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of cores of the cluster, whatever is asked for, as with Dask."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]

    def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> "Future[Any]":
        ((function, arguments, named),) = func.items  # batch_size is 1
        task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_call)
        reference = task.remote(function, named, *(self._references.get(id(value), value) for value in arguments))
        self._running.add(reference)
        future: Future[Any] = reference.future()
        future.add_done_callback(lambda _: self._running.discard(reference))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: "Future[Any]") -> Any:
        try:
            return out.result()
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error  # what the task raised, as if it had been called here

    def abort_everything(self, ensure_ready: bool = True) -> None:
        for reference in list(self._running):
            ray.cancel(reference, force=True)


def _call(function: Callable[..., Any], named: dict[str, Any], *arguments: Any) -> list[Any]:
    return [function(*arguments, **named)]
