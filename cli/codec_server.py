"""Opens closed payloads for people: the codec server of the Temporal UI and of the ``temporal`` command.

The protocol is Temporal's (Remote data encoding): POST ``…/decode`` and ``…/encode`` with ``{"payloads": [...]}`` as
protobuf's JSON. Whoever reaches it reads what Temporal keeps, so it listens on this machine alone unless told else, and
answers pages of the named UI only.
"""

import os
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final

import typer
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from temporalio.api.common.v1 import Payload, Payloads

from cli.errors import CommandError
from contract.address import Address, parse_address
from contract.names import ExitCode
from contract.payload_codec import close, open_payload
from contract.payload_keys import FOLDER_SETTING, Keyring, KeyringError, load_keyring
from worker.listening import HttpServer

_BODY_MAX: Final = 16 * 1024 * 1024
"""Temporal's answers are at most 4 MB; base64 and JSON make more of them."""


def serve(address: str, ui: str) -> None:
    """Answer until interrupted.

    Raises:
        CommandError: there are no keys, or the address cannot be used.
    """
    try:
        keys = load_keyring(os.environ)
    except KeyringError as error:
        raise CommandError(error.what, error.remedy, ExitCode.CONFIG) from error
    if keys is None:
        raise CommandError(
            f"{FOLDER_SETTING} is not set: there is nothing to open.", "Set it to the workers' keys.", ExitCode.CONFIG
        )
    try:
        listen = parse_address(address)
    except ValueError as error:
        raise CommandError(f"--address is {address!r}.", f"It {error}.", ExitCode.USAGE) from error
    try:
        server = make_server(listen, ui, keys)
    except OSError as error:
        raise CommandError(
            f"{address} cannot be listened on: {error}.", "Choose another --address.", ExitCode.UNAVAILABLE
        ) from error
    with server:
        typer.echo(f"Set http://{server.at} as codec server in the UI at {ui} (the glasses, top right).")
        server.serve_forever()


def make_server(address: Address, ui: str, keys: Keyring) -> HttpServer:
    """The server, listening; ``ui`` is the only origin that it answers in a browser."""
    origin = ui.rstrip("/")

    class Handler(BaseHTTPRequestHandler):
        """One request."""

        def do_OPTIONS(self) -> None:
            """What a browser asks before it sends."""
            if self._allowed():
                self._answer(HTTPStatus.NO_CONTENT)

        def do_POST(self) -> None:
            """Open, or close, payloads."""
            work = self._work()
            if not self._allowed():
                return
            length = self.headers.get("Content-Length", "")
            if work is None:
                self._answer(HTTPStatus.NOT_FOUND, b"POST to /decode or /encode.\n")
            elif not length.isdigit() or int(length) > _BODY_MAX:
                self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"Too much, or Content-Length is missing.\n")
            else:
                self._do(work, self.rfile.read(int(length)))

        def log_message(self, *_: object) -> None:
            """Nothing: what people look at is theirs."""

        def _work(self) -> Callable[[Payload, Keyring], Payload] | None:
            path = self.path.partition("?")[0]
            return open_payload if path.endswith("/decode") else close if path.endswith("/encode") else None

        def _do(self, work: Callable[[Payload, Keyring], Payload], body: bytes) -> None:
            try:
                payloads = Parse(body, Payloads(), ignore_unknown_fields=True).payloads
                done = Payloads(payloads=[work(payload, keys) for payload in payloads])
            except (ParseError, UnicodeDecodeError, KeyError) as error:
                self._answer(HTTPStatus.BAD_REQUEST, f"These are no payloads: {error}\n".encode())
            except KeyringError as error:
                self._answer(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}\n".encode())
            else:
                self._answer(HTTPStatus.OK, MessageToJson(done).encode(), "application/json")

        def _allowed(self) -> bool:
            """Pages of other places may not ask; what is no page, such as the `temporal` command, names no origin."""
            if self.headers.get("Origin", origin) == origin:
                return True
            self._answer(HTTPStatus.FORBIDDEN, f"Only {origin} may ask (--ui).\n".encode())
            return False

        def _answer(self, status: HTTPStatus, body: bytes = b"", kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Access-Control-Allow-Origin", origin)
            self.send_header("Access-Control-Allow-Methods", "POST, OPTIONS")
            self.send_header("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Authorization")
            self.send_header("Access-Control-Allow-Credentials", "true")
            self.send_header("Vary", "Origin")
            self.send_header("Cache-Control", "no-store")
            if body:
                self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return HttpServer(address, Handler)
