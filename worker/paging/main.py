"""``nodemend page``: looks every few seconds what needs a human, and tells each place what it does not know yet.

One process, like ``watch-cluster``: two of them would tell Slack everything twice. What was told is kept in a file, so
that a restart repeats nothing and an alert that ended meanwhile is still resolved.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr, ValidationError

from activities.posting import NotTakenError
from activities.preserve import write_whole
from contract.address import OptionalListenAddress, parse_address
from contract.model import Message
from contract.names import ExitCode
from worker.clients import cloudwatch, cluster_client
from worker.errors import StartError
from worker.paging.alerts import Alert, Told
from worker.paging.inbox import Inbox, Reader, acknowledge, readers
from worker.paging.sources import Sources
from worker.paging.standing import Standing
from worker.paging.webhooks import PagerDuty, PlainJson, Slack, Webhook
from worker.process import connected, run, told_to_stop
from worker.settings import ProcessSettings
from worker.temporal import connect, load_connection, make_runtime

_log = logging.getLogger(__name__)
_STATE: Final = "pager.json"
_STANDING_EVERY_S: Final = 60.0
"""CloudWatch keeps one value a minute (resolution of its usual metrics)."""
_PAGERDUTY: Final = "https://events.pagerduty.com/v2/enqueue"


class PagerSettings(ProcessSettings):
    """``NODEMEND_*`` of ``nodemend page``."""

    cluster: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    record_dir: Path = Path("records")
    ui_url: str = ""
    slack_url: SecretStr = SecretStr("")
    pagerduty_key: SecretStr = SecretStr("")
    pagerduty_url: str = _PAGERDUTY
    webhook_url: SecretStr = SecretStr("")
    webhook_secret: SecretStr = SecretStr("")
    acknowledge_address: OptionalListenAddress = Field(
        default="", description="host:port that PagerDuty and Slack tell; empty: none."
    )
    pagerduty_webhook_secret: SecretStr = SecretStr("")
    slack_signing_secret: SecretStr = SecretStr("")
    page_every: float = Field(default=15.0, gt=0, description="Seconds between two looks.")
    cloudwatch: bool = Field(default=False, description="Tell CloudWatch how things stand (namespace Nodemend).")

    def places(self) -> list[Webhook]:
        """Where alerts are told.

        Raises:
            StartError: nowhere, and CloudWatch is told nothing either.
        """
        secret = self.webhook_secret.get_secret_value()
        places: list[Webhook] = []
        if url := self.slack_url.get_secret_value():
            places.append(Slack(url, secret, button=bool(self.acknowledge_address and self.slack_signing_secret)))
        if key := self.pagerduty_key.get_secret_value():
            places.append(PagerDuty(self.pagerduty_url, key, secret))
        if url := self.webhook_url.get_secret_value():
            places.append(PlainJson(url, secret))
        if not places and not self.cloudwatch:
            raise StartError(
                "Nobody is set to be paged.",
                "Set NODEMEND_SLACK_URL, NODEMEND_PAGERDUTY_KEY or NODEMEND_WEBHOOK_URL, or NODEMEND_CLOUDWATCH=true "
                "for alarms there.",
                ExitCode.CONFIG,
            )
        return places

    def readers(self) -> dict[str, Reader]:
        """Who is believed to acknowledge something.

        Raises:
            StartError: it is to be listened to nobody.
        """
        found = readers(self.pagerduty_webhook_secret.get_secret_value(), self.slack_signing_secret.get_secret_value())
        if self.acknowledge_address and not found:
            raise StartError(
                "NODEMEND_ACKNOWLEDGE_ADDRESS is set, and no secret to believe anybody by.",
                "Set NODEMEND_PAGERDUTY_WEBHOOK_SECRET or NODEMEND_SLACK_SIGNING_SECRET too.",
                ExitCode.CONFIG,
            )
        return found


class Memory(Message):
    """What each place was told."""

    told: dict[str, Told] = Field(default_factory=dict)


class Pager:
    """Tells each place what it does not know."""

    def __init__(self, read: Callable[[], Awaitable[Iterable[Alert]]], places: Sequence[Webhook], state: Path) -> None:
        self._read = read
        self._places = places
        self._state = state
        self._memory = _remembered(state)
        self._telling: dict[str, asyncio.Task[None]] = {}
        """By place: what it is told now."""

    def open_alerts(self) -> set[str]:
        """What some place was told and is not over."""
        return {key for told in self._memory.told.values() for key in told.alerts}

    async def look(self, within: float | None = None) -> None:
        """One look. A place that takes nothing now keeps no other one waiting, and is told with a later look.

        ``within``: seconds after which one that takes long is left to itself, and is told no more until it has
        answered; a receiver that hangs has the others paged late else.
        """
        alerts = list(await self._read())
        for place in self._places:
            if place.name not in self._telling:
                self._telling[place.name] = asyncio.create_task(self._tell(place, alerts), name=place.name)
        done, _ = await asyncio.wait(self._telling.values(), timeout=within) if self._telling else (set(), set())
        for task in done:
            del self._telling[task.get_name()]
            task.result()

    async def _tell(self, place: Webhook, alerts: Sequence[Alert]) -> None:
        for event, alert in list(self._memory.told.get(place.name, Told()).due(alerts)):
            try:
                await asyncio.to_thread(place.tell, event, alert)
            except NotTakenError as error:
                _log.warning("%s was not told (%s of %s): %s. It is tried again.", place.name, event, alert.key, error)
                return
            _log.info("%s was told: %s of %s", place.name, event, alert.key)
            told = self._memory.told.get(place.name, Told()).after(event, alert)
            self._memory = Memory(told={**self._memory.told, place.name: told})
            self._keep()

    def _keep(self) -> None:
        try:
            write_whole(self._state, self._memory.model_dump_json())
        except OSError as error:
            _log.warning("%s cannot be written (%s): a restart would page again.", self._state, error.strerror)


def _remembered(state: Path) -> Memory:
    try:
        return Memory.model_validate_json(state.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return Memory()


async def _page(settings: PagerSettings) -> None:
    places, believed = settings.places(), settings.readers()
    identity = f"{os.getpid()}@{socket.gethostname()}/{settings.cluster}/pager"
    metrics = cloudwatch() if settings.cloudwatch else None
    stopping = told_to_stop()
    try:
        client = await connected(connect(load_connection(), make_runtime(""), identity), stopping)
        if client is None:
            return
        sources = Sources(client, cluster_client().nodes, settings.cluster, settings.ui_url)
        pager = Pager(sources.read, places, settings.record_dir / _STATE)
        standing = Standing(client, settings.cluster, metrics) if metrics else None
        told = [place.name for place in places] + (["CloudWatch"] if standing else [])
        _log.info("Paging: %s", ", ".join(told))
        due = 0.0
        with ExitStack() as serving:
            if settings.acknowledge_address:
                take = partial(acknowledge, client, pager.open_alerts)
                inbox = Inbox(parse_address(settings.acknowledge_address), believed, take)
                serving.callback(inbox.close)
                _log.info("Acknowledgements are taken at %s: %s", inbox.url, ", ".join(believed))
            while not stopping.done():
                await pager.look(within=settings.page_every)
                if standing and time.monotonic() >= due:
                    due = time.monotonic() + _STANDING_EVERY_S
                    await standing.tell(sources.seen)
                await asyncio.wait({stopping}, timeout=settings.page_every)
    finally:
        stopping.cancel()
        if metrics:
            await asyncio.to_thread(metrics.close)


def main() -> int:
    """Run until told to stop; the exit code."""
    return run("nodemend page", PagerSettings, _page)
