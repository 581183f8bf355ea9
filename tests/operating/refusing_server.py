"""A gRPC front that refuses every call, as an authorising proxy before Temporal does with wrong credentials.

The dev server knows no authorisation, so this plays the one answer that it will not give: ``UNAUTHENTICATED`` (16) or
``PERMISSION_DENIED`` (7), sent as a trailers-only response (gRPC over HTTP/2).
"""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS, _PING = 0x1, 0x4, 0x6
_ACK = 0x1
_END_HEADERS_AND_STREAM = 0x5


class RefusingServer:
    """Answers every call with one status."""

    def __init__(self, status: int, message: str) -> None:
        fields = {
            ":status": "200",
            "content-type": "application/grpc",
            "grpc-status": str(status),
            "grpc-message": message,
        }
        # HPACK: literal fields without indexing, and without Huffman coding.
        self._answer = b"".join(
            b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
            for name, value in fields.items()
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: list[socket.socket] = []

    def __enter__(self) -> "RefusingServer":
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for client in self._open:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream, suppress(OSError):
            stream.read(len(_PREFACE))
            client.sendall(_frame(_SETTINGS, 0, 0, b""))
            while len(head := stream.read(9)) == 9:
                length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
                number = int.from_bytes(head[5:]) & 0x7FFFFFFF
                body = stream.read(length)
                if kind == _SETTINGS and not flags & _ACK:
                    client.sendall(_frame(_SETTINGS, _ACK, 0, b""))
                elif kind == _PING and not flags & _ACK:
                    client.sendall(_frame(_PING, _ACK, 0, body))
                elif kind == _HEADERS:
                    client.sendall(_frame(_HEADERS, _END_HEADERS_AND_STREAM, number, self._answer))


def _frame(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", number) + body
