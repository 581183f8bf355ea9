"""Takes acknowledgements from PagerDuty and Slack, and lays each into the record of its incident.

It is reached from outside, so it does one thing: what is signed and of an open alert becomes the override
``acknowledge``, by whoever did it there. It is a signal, so it waits for no worker. TLS is for what stands before it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from contract.address import Address
from contract.names import ExitCode, OverrideName
from contract.override import Override
from worker.errors import StartError
from worker.listening import HttpServer
from worker.paging.acknowledged import Acknowledged, Headers, RefusedError, from_pagerduty, from_slack
from worker.paging.alerts import KEY_MAX

_log = logging.getLogger(__name__)
_BODY_MAX: Final = 512 * 1024
_READ_WITHIN_S: Final = 10.0
_ANSWER_WITHIN_S: Final = 2.5
"""Slack wants to hear within three seconds (api.slack.com, "Acknowledgment response")."""
_NAME_MAX: Final = 200

Reader = Callable[[Headers, bytes, datetime], Acknowledged | None]
Take = Callable[[Acknowledged], Coroutine[Any, Any, tuple[HTTPStatus, str]]]


def readers(pagerduty_secret: str, slack_secret: str) -> dict[str, Reader]:
    """By path, what reads it: only what a secret is set for."""
    found: dict[str, Reader] = {}
    if pagerduty_secret:
        found["/pagerduty"] = lambda headers, body, now: from_pagerduty(headers, body, pagerduty_secret, now)
    if slack_secret:
        found["/slack"] = lambda headers, body, now: from_slack(headers, body, slack_secret, now)
    return found


async def acknowledge(
    client: Client, open_alerts: Callable[[], set[str]], said: Acknowledged
) -> tuple[HTTPStatus, str]:
    """Lay it into the incident's record; what to answer. Nothing is signalled that is no open alert of ours."""
    alert = {key[-KEY_MAX:]: key for key in open_alerts()}.get(said.key)
    if alert is None:
        return HTTPStatus.OK, "no open alert: it is over, or another installation's"
    override = Override(by=said.by[:_NAME_MAX], reason="Acknowledged there: somebody looks at it.", id=said.id[:100])
    try:
        await client.get_workflow_handle(alert).signal(OverrideName.ACKNOWLEDGE, override)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return HTTPStatus.OK, "it is no incident, or over"
        # So that they tell it again.
        return HTTPStatus.SERVICE_UNAVAILABLE, f"Temporal does not take it now: {error.message}"
    return HTTPStatus.OK, "acknowledged"


class Inbox:
    """Serves on threads of its own; what is taken is done on the event loop that made it."""

    def __init__(self, address: Address, readers: Mapping[str, Reader], take: Take) -> None:
        """Bind the address; port 0 picks a free one. To be made on the event loop.

        Raises:
            StartError: the address cannot be bound.
        """
        try:
            self._server = HttpServer(address, _handler(readers, take, asyncio.get_running_loop()))
        except OSError as error:
            raise StartError(
                f"Acknowledgements cannot be taken on {address}: {error.strerror}.",
                "Set NODEMEND_ACKNOWLEDGE_ADDRESS to a free host:port.",
                ExitCode.CONFIG,
            ) from error
        self.url = f"http://{self._server.at}"
        threading.Thread(target=self._server.serve_forever, name="inbox", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _handler(
    readers: Mapping[str, Reader], take: Take, loop: asyncio.AbstractEventLoop
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _READ_WITHIN_S

        def do_POST(self) -> None:
            """One event. Whoever is not believed learns no more than that."""
            read, length = readers.get(self.path.partition("?")[0]), self.headers.get("Content-Length", "")
            if read is None:
                self._answer(HTTPStatus.NOT_FOUND)
            elif not length.isdigit() or int(length) > _BODY_MAX:
                self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            else:
                self._answer(self._done(read, self.rfile.read(int(length))))

        def _done(self, read: Reader, body: bytes) -> HTTPStatus:
            try:
                said = read(self.headers, body, datetime.now(UTC))
            except RefusedError as error:
                _log.warning("Something came to %s and was refused: %s", self.path, error)
                return HTTPStatus.UNAUTHORIZED
            if said is None:
                return HTTPStatus.OK
            taking = asyncio.run_coroutine_threadsafe(take(said), loop)
            try:
                status, outcome = taking.result(_ANSWER_WITHIN_S)
            except TimeoutError:
                taking.cancel()
                status, outcome = HTTPStatus.SERVICE_UNAVAILABLE, "Temporal does not answer"
            _log.info("%s acknowledges %s: %s", said.by, said.key, outcome)
            return status

        def _answer(self, status: HTTPStatus) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Scanners are not news."""

    return Handler
