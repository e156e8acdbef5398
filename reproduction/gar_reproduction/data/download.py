"""One file over HTTP: it goes on where it was interrupted, gives up on a server that stalls, and is never half there."""

import os
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from gar.errors import InputError

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and the size of the file, where the server tells it."""

_BLOCK = 1 << 16
_ATTEMPTS = 3
_RANGE_NOT_SATISFIABLE = 416


class DownloadError(InputError, OSError):
    """A file could not be downloaded; the message says why, and what to do by hand."""


class _BrokenError(Exception):
    """The connection broke in the middle: what has come is kept."""


def download(url: str, part: Path, *, limit: int, timeout: float, progress: Progress | None = None) -> None:
    """Fetch ``url`` into ``part``, going on behind what is already in it.

    A broken connection is tried again a few times. After an error, ``part`` holds what has come, for the next call.

    Raises:
        DownloadError: it cannot be had, or is larger than ``limit`` bytes.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"{url!r} is no web address; expected one that begins with https://")
    reason = ""
    for _ in range(_ATTEMPTS):
        try:
            return _receive(url, part, limit, timeout, progress)
        except _BrokenError as error:
            reason = str(error)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server answered {error.code} {error.reason}"
            if error.code != _RANGE_NOT_SATISFIABLE:
                break
            part.unlink(missing_ok=True)  # longer than the file: it was another one
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)  # urllib wraps what happens before the first byte
            reason = f"no answer within {timeout:g} s" if isinstance(cause, TimeoutError) else str(cause)
            break
    raise DownloadError(f"{url} could not be downloaded: {reason}")


def _receive(url: str, part: Path, limit: int, timeout: float, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "gar", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=timeout) as response:
        start = have if response.status == 206 and _starts_at(response, have) else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length and length.isdigit() else None
        _append(response, part, start, total, limit, url, progress)


def _starts_at(response: HTTPResponse, place: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {place}-")


def _append(
    response: HTTPResponse, part: Path, start: int, total: int | None, limit: int, url: str, progress: Progress | None
) -> None:
    size = start
    with part.open("r+b" if start else "wb") as sink:
        sink.seek(start)
        try:
            while block := response.read1(_BLOCK):
                size += len(block)
                if size > limit:
                    raise DownloadError(f"{url} is larger than {limit} bytes, which it should not be")
                sink.write(block)
                if progress is not None:
                    progress(size, total)
        except (HTTPException, ConnectionError) as error:
            raise _BrokenError(f"the connection broke after {size} bytes ({type(error).__name__})") from error
        finally:
            sink.flush()
            os.fsync(sink.fileno())
    if total is not None and size < total:
        raise _BrokenError(f"the connection broke after {size} of {total} bytes")
