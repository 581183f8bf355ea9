"""``/healthz`` that tells the truth: whether *the server* saw this process poll lately, not that a port answers.

``/livez`` is what a liveness probe asks: whether the event loop runs. That Temporal is away no restart mends.
"""

import asyncio
import json
import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Final

from temporalio.client import Client
from temporalio.service import RPCError

from contract.address import Address
from contract.names import TASK_QUEUE, ExitCode
from worker.errors import StartError
from worker.listening import HttpServer
from worker.temporal import pollers

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 15.0
_SILENT_AFTER: Final = timedelta(minutes=3)
"""A long poll lasts a minute, so a live poller is seen at least that often."""
_STALE_AFTER_S: Final = 90.0
_BEAT_EVERY_S: Final = 5.0


@dataclass
class Health:
    """What is known about this process, and when that was found out."""

    ok: bool = False
    reason: str = "starting: Temporal has not seen this worker poll yet"
    looked_at: float = field(default_factory=time.monotonic)
    beat_at: float = field(default_factory=time.monotonic)

    def set(self, *, ok: bool, reason: str) -> None:
        """Note what a look found."""
        if ok != self.ok:
            _log.log(logging.INFO if ok else logging.WARNING, "Health: %s", reason)
        self.ok, self.reason, self.looked_at = ok, reason, time.monotonic()

    def answer(self) -> tuple[int, dict[str, object]]:
        """Status code and body of ``/healthz``."""
        age = time.monotonic() - self.looked_at
        if age > _STALE_AFTER_S:
            return 503, {"ok": False, "reason": f"the event loop has not looked for {age:.0f} s: it is stuck"}
        return (200 if self.ok else 503), {"ok": self.ok, "reason": self.reason, "age_s": round(age, 1)}

    def alive(self) -> tuple[int, dict[str, object]]:
        """Status code and body of ``/livez``."""
        age = time.monotonic() - self.beat_at
        stuck = age > _STALE_AFTER_S
        reason = f"the event loop has stood still for {age:.0f} s" if stuck else "the event loop runs"
        return (503 if stuck else 200), {"ok": not stuck, "reason": reason}


async def beat(health: Health) -> None:
    """Note that the event loop runs. Runs until cancelled."""
    while True:
        health.beat_at = time.monotonic()
        await asyncio.sleep(_BEAT_EVERY_S)


async def watch_health(client: Client, identity: str, health: Health) -> None:
    """Ask Temporal again and again whether it sees this worker poll. Runs until cancelled."""
    while True:
        try:
            seen = await _last_poll(client, identity)
            if seen is None:
                health.set(ok=False, reason=f"Temporal sees no poller {identity} on task queue {TASK_QUEUE}")
            elif datetime.now(UTC) - seen > _SILENT_AFTER:
                health.set(ok=False, reason=f"Temporal has not seen this worker poll since {seen.isoformat()}")
            else:
                health.set(ok=True, reason=f"polling {TASK_QUEUE}")
        except RPCError as error:
            health.set(ok=False, reason=f"Temporal cannot be asked: {error.message}")
        await asyncio.sleep(_LOOK_EVERY_S if health.ok else 1.0)


async def _last_poll(client: Client, identity: str) -> datetime | None:
    seen = [poller for poller in await pollers(client, TASK_QUEUE) if poller.identity == identity]
    return max((poller.last_access_time.ToDatetime(tzinfo=UTC) for poller in seen), default=None)


class HealthServer:
    """Serves both on a thread of its own, so that a stuck event loop cannot keep it from saying so."""

    def __init__(self, address: Address, health: Health) -> None:
        """Bind the address; port 0 picks a free one.

        Raises:
            StartError: the address cannot be bound.
        """
        try:
            self._server = HttpServer(address, _handler(health))
        except OSError as error:
            raise StartError(
                f"Health cannot be served on {address}: {error.strerror}.",
                "Set NODEMEND_HEALTH_ADDRESS to a free host:port.",
                ExitCode.CONFIG,
            ) from error
        self.address = str(self._server.at)
        threading.Thread(target=self._server.serve_forever, name="healthz", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _handler(health: Health) -> type[BaseHTTPRequestHandler]:
    answers = {"/healthz": health.answer, "/livez": health.alive}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answers.get(self.path, lambda: (404, {"reason": "only /healthz and /livez are here"}))()
            payload = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: object) -> None:
            """Probes are not news."""

    return Handler
