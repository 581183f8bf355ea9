"""A gateway in front of Temporal that refuses whoever comes, as Temporal Cloud does with a wrong key.

The dev server checks no credentials, so this speaks just enough HTTP/2 (RFC 9113) to answer every gRPC call with one
status. It is no Temporal: nothing is asked of it but a refusal.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from tests.operating.accepting import accepting

_PREFACE: Final = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_HEADERS, _SETTINGS, _PING = 1, 4, 6
_ACK: Final = 1
_END_OF_STREAM_AND_HEADERS: Final = 0x5
_STATUS_200: Final = b"\x88"
"""Indexed field 8 of HPACK's static table (RFC 7541, appendix A)."""


@contextmanager
def refusing_gateway(grpc_status: int, message: str) -> Iterator[str]:
    """Run it for the length of the block, and yield its address."""
    with accepting(lambda connection, _: _serve(connection, grpc_status, message)) as address:
        yield address


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
