"""Worker processes that end with their parent. It imports nothing heavy: a worker watches before it imports torch."""

import os
import threading
import time
from typing import Any

from joblib.parallel import get_active_backend

_WATCH_SECONDS = 1.0  # how often a worker looks whether its parent is there


def end_with_parent() -> dict[str, Any]:
    """Return joblib's options for worker processes that end with this process, however it ends: killed, it cannot end them.

    Processes of loky would compute on to the end of their task, and then wait five minutes for another. Clusters end their own, and
    an initializer that the user has set in ``joblib.parallel_config`` is left in its place. Windows does not show that a parent has
    ended, so there workers stay as they are.
    """
    current = getattr(get_active_backend()[0], "backend_kwargs", {})
    return {} if "initializer" in current else {"initializer": _watch_parent, "initargs": (os.getpid(),)}


def _watch_parent(parent: int) -> None:
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    """End this process, whatever it is at, once its parent has ended. Asking every second costs nothing that can be measured."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
