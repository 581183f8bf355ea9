"""A server on loopback for a test, one thread for each connection: all of them are gone when the block is left."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Serve = Callable[[socket.socket, list[socket.socket]], None]
"""Serves one connection. What it opens itself it lays into the list, and the end of the block wakes and closes it."""


@contextmanager
def accepting(serve: Serve, wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain) -> Iterator[str]:
    """Serve for the length of the block; yields the address. ``wrap`` is done with each connection at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ = [listener]
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection = wrap(listener.accept()[0])
            except OSError:
                return
            open_.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection, open_)))
            threads[-1].start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # shutdown wakes the threads in accept and recv; close alone would leave them there.
        for each in open_:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for one in (thread, *threads):
            one.join()
        for each in open_:
            each.close()
