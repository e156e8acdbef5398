"""A real server on this machine, which misbehaves on request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Archive:
    """What the server serves, how it fails, and what it was asked."""

    files: dict[str, bytes]
    break_after: list[int] = field(default_factory=list)
    """For each answer to come: close the connection after this many bytes."""
    ranges: bool = True
    stall: bool = False
    trickle: bool = False
    """Send a byte every tenth of a second."""
    lengths: bool = True
    asked: list[str | None] = field(default_factory=list)
    """The Range header of each request."""
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(archive: Archive) -> Iterator[Archive]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"archive": archive}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    archive.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield archive
    finally:
        archive.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    archive: Archive

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.archive.asked.append(wanted)
        content = self.archive.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.archive.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self._answer(content, start)

    def _answer(self, content: bytes, start: int) -> None:
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.archive.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + self.archive.break_after.pop(0) if self.archive.break_after else len(content)
        if self.archive.trickle:
            while start < end and not self.archive.released.wait(0.1):
                self.wfile.write(content[start : start + 1])
                start += 1
            return
        self.wfile.write(content[start:end])
        if self.archive.stall:
            self.archive.released.wait(10)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is http.server's)
        """Quiet."""
