"""``/metrics`` and ``/healthz`` of watch, answered inside its own loop: a port that answers beside it would lie.

Standard library alone, and only ``socket`` of it: ``http.server`` costs half of the memory that watch may use.
"""

import json
import socket
from collections.abc import Callable
from typing import Final

_REQUEST_MAX: Final = 4096
_PATIENCE_S: Final = 0.2
"""For a client that connects and says nothing: the loop has kernel records to read."""


class Exporter:
    """A listening socket that is served when the loop finds it readable."""

    def __init__(self, host: str, port: int) -> None:
        """Bind; port 0 picks a free one.

        Raises:
            OSError: the address cannot be bound.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` takes IPv4 too, whatever the machine's default is (net.ipv6.bindv6only).
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self._socket.bind((host, port))
        self._socket.listen(8)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self.descriptor = self._socket.fileno()

    def serve(self, health: "Callable[[], tuple[bool, dict[str, object]]]", metrics: "Callable[[], str]") -> None:
        """Answer one waiting client."""
        try:
            client, _ = self._socket.accept()
        except OSError:
            return
        with client:
            client.settimeout(_PATIENCE_S)
            try:
                words = client.recv(_REQUEST_MAX).split(b" ", 2)
                path = words[1] if len(words) > 1 else b""
                if path == b"/healthz":
                    ok, body = health()
                    _answer(client, "200 OK" if ok else "503 Service Unavailable", "application/json", json.dumps(body))
                elif path == b"/metrics":
                    _answer(client, "200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics())
                else:
                    _answer(client, "404 Not Found", "text/plain", "Only /healthz and /metrics are here.\n")
            except OSError:
                return


def _answer(client: socket.socket, status: str, kind: str, body: str) -> None:
    payload = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    client.sendall(head.encode() + payload)


Sample = tuple[str, str, str, dict[str, str], float]
"""Name, type, help, labels, value."""


def render(samples: "list[Sample]") -> str:
    """Prometheus text; samples of one name stand together."""
    lines: list[str] = []
    named: set[str] = set()
    for name, kind, text, labels, value in samples:
        if name not in named:
            named.add(name)
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        joined = ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items())
        lines.append(f"{name}{{{joined}}} {value:.12g}" if joined else f"{name} {value:.12g}")
    return "\n".join(lines) + "\n"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
