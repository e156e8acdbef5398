"""A record as bytes: a plain ``.npz`` file, whose zip comment is a checksum of all the rest.

So ``np.load`` opens it like any other, and a single changed, missing or added byte is noticed.
"""

import hashlib
import io
import zipfile
from collections.abc import Mapping

import numpy as np

_PREFIX = b"sha256:"
_COMMENT = len(_PREFIX) + 64
_NO_COMMENT = (0).to_bytes(2, "little")  # a zip file ends with the length of its comment and the comment


class DamagedError(ValueError):
    """These bytes are not a whole record; the message says why."""


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    body = buffer.getvalue()
    return body[:-2] + _COMMENT.to_bytes(2, "little") + _checksum(body)


def from_bytes(content: bytes) -> dict[str, np.ndarray]:
    """The arrays by name; :class:`DamagedError` if the bytes are not exactly what :func:`to_bytes` made."""
    if not content:
        raise DamagedError("it is empty")
    if not content.startswith(b"PK"):
        raise DamagedError("it is not a record")
    rest, length, comment = content[: -_COMMENT - 2], content[-_COMMENT - 2 : -_COMMENT], content[-_COMMENT:]
    body = rest + _NO_COMMENT
    if length != _COMMENT.to_bytes(2, "little") or comment != _checksum(body):
        raise DamagedError("its checksum is missing or wrong")
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:  # a right checksum over something else
        raise DamagedError(f"it cannot be read: {error}") from error


def _checksum(body: bytes) -> bytes:
    return _PREFIX + hashlib.sha256(body).hexdigest().encode()
