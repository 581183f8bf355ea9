"""A real HTTP server that takes webhooks, and refuses them first where it is told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """What came, in order, and what is answered."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.taken: list[dict[str, Any]] = []
        self.raw: list[tuple[dict[str, str], bytes]] = []
        self.refusals: list[int] = []
        """Statuses to answer with, before anything is taken."""
        self.closed = False
        """While True, everything is refused for good."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve on loopback for the length of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            status = 403 if receiver.closed else receiver.refusals.pop(0) if receiver.refusals else 202
            if status == 202:
                receiver.raw.append((dict(self.headers), data))
                receiver.taken.append(json.loads(data))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server.RequestHandlerClass = Handler
    thread = threading.Thread(target=server.serve_forever, name="receiver")
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
