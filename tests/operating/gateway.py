"""A gateway in front of Temporal that refuses whoever comes, as Temporal Cloud does with a wrong key.

The dev server checks no credentials, so this speaks just enough HTTP/2 (RFC 9113) to answer every gRPC call with one
status. It is no Temporal: nothing is asked of it but a refusal.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PREFACE: Final = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADERS, _SETTINGS, _PING = 1, 4, 6
_ACK: Final = 1
_END_OF_STREAM_AND_HEADERS: Final = 0x5
_STATUS_200: Final = b"\x88"
"""Indexed field 8 of HPACK's static table (RFC 7541, appendix A)."""


@contextmanager
def refusing_gateway(grpc_status: int, message: str) -> Iterator[str]:
    """Run it for the length of the block, and yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_.append(connection)
            threads.append(threading.Thread(target=_serve, args=(connection, grpc_status, message)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # shutdown wakes the threads in accept and recv; close alone would leave them there.
        for each in (listener, *open_):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join()
        for each in (listener, *open_):
            each.close()


def _serve(connection: socket.socket, grpc_status: int, message: str) -> None:
    headers = {"content-type": "application/grpc", "grpc-status": str(grpc_status), "grpc-message": message}
    answer = _STATUS_200 + b"".join(_literal(name, value) for name, value in headers.items())
    with suppress(OSError), connection.makefile("rb") as received:
        received.read(_PREFACE)
        connection.sendall(_frame(_SETTINGS, 0, 0, b""))
        while len(head := received.read(9)) == 9:
            payload = received.read(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                connection.sendall(_frame(kind, _ACK, 0, payload if kind == _PING else b""))
            elif kind == _HEADERS:
                connection.sendall(_frame(_HEADERS, _END_OF_STREAM_AND_HEADERS, stream, answer))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _literal(name: str, value: str) -> bytes:
    """A header field as a literal, new name, not indexed (RFC 7541, 6.2.2); lengths below 127."""
    return b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
