"""A TCP proxy that can be cut, for servers that must be away for a while and come back."""

import socket
import threading
from contextlib import suppress
from types import TracebackType

from contract.address import Address, parse_address


class Proxy:
    """Forwards connections to a server; cut, it drops those there are and refuses new ones.

    With ``delay_s`` it is a slow server: each piece of an answer comes so much later.
    """

    def __init__(self, target: str, *, delay_s: float = 0.0, host: str = "127.0.0.1") -> None:
        self._delay_s = delay_s
        self._over = threading.Event()
        self._target = parse_address(target)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.address = str(Address(host, self._listener.getsockname()[1]))
        self._open: set[socket.socket] = set()
        self._copiers: list[threading.Thread] = []
        self._cut = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        # shutdown wakes the thread in accept; close alone would leave it there.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut()
        for copier in self._copiers:
            copier.join()

    def cut(self) -> None:
        """Drop everything, and whoever comes."""
        with self._lock:
            self._cut = True
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Forward again."""
        with self._lock:
            self._cut = False

    def lead_to(self, target: str) -> None:
        """Forward new connections to another server, as a load balancer does when one is gone."""
        with self._lock:
            self._target = parse_address(target)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._cut:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                self._open |= {client, server}
            for source, sink, delay_s in ((client, server, 0.0), (server, client, self._delay_s)):
                copier = threading.Thread(target=self._copy, args=(source, sink, delay_s), daemon=True)
                self._copiers.append(copier)
                copier.start()

    def _copy(self, source: socket.socket, sink: socket.socket, delay_s: float) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if delay_s:
                    self._over.wait(delay_s)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        # Each direction closes its own source: the other one still reads from the sink until it sees the end.
        source.close()
