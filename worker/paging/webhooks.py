"""Webhooks: an alert in the shape of Slack, of PagerDuty, or as plain JSON; signed where a secret is set."""

from abc import ABC, abstractmethod
from typing import Any, Final

import urllib3

from activities.posting import Poster
from contract.model import SCHEMA_VERSION
from worker.paging.acknowledged import BUTTON
from worker.paging.alerts import KEY_MAX, Alert, Event

_PATIENCE: Final = urllib3.Timeout(connect=5.0, read=10.0)
"""For each try; what outlasts them is tried again with the next look, for as long as the alert lasts."""
_SUMMARY_MAX: Final = 1024
"""Of PagerDuty's ``payload.summary`` (Events API v2)."""
_BLOCK_MAX: Final = 2900
"""Of a text of Slack's section block: 3,000 (Block Kit reference)."""
_WORDS: Final = {Event.TRIGGER: "Needs a human", Event.ACKNOWLEDGE: "Seen", Event.RESOLVE: "Over"}
_ICONS: Final = {Event.TRIGGER: ":rotating_light:", Event.ACKNOWLEDGE: ":eyes:", Event.RESOLVE: ":white_check_mark:"}


class Webhook(ABC):
    """One place that alerts are told to."""

    name: str

    def __init__(self, url: str, secret: str = "") -> None:
        self._poster = Poster(url, secret, _PATIENCE)

    @abstractmethod
    def body(self, event: Event, alert: Alert) -> dict[str, Any]:
        """What is sent."""

    def tell(self, event: Event, alert: Alert) -> None:
        """Send it.

        Raises:
            NotTakenError: it was not taken.
        """
        self._poster.post(self.body(event, alert))


class PlainJson(Webhook):
    """For a receiver of your own."""

    name = "json"

    def body(self, event: Event, alert: Alert) -> dict[str, Any]:
        """The alert as it is."""
        return {"schema_version": SCHEMA_VERSION, "event": event, "alert": alert.model_dump(mode="json")}


class Slack(Webhook):
    """An incoming webhook of Slack."""

    name = "slack"

    def __init__(self, url: str, secret: str = "", *, button: bool = False) -> None:
        """``button``: whether pressing it is listened to (``worker.paging.inbox``)."""
        super().__init__(url, secret)
        self._button = button

    def body(self, event: Event, alert: Alert) -> dict[str, Any]:
        """Blocks, and a line for notifications."""
        title = _slack(alert.title)
        by = f" by {_slack(alert.acknowledged_by)}" if event is Event.ACKNOWLEDGE else ""
        head = f"{_ICONS[event]} *{_WORDS[event]}{by}*: {f'<{alert.url}|{title}>' if alert.url else title}"
        blocks = [_section(head)]
        if event is Event.TRIGGER:
            blocks.append(_section(_slack(alert.text)))
            context = f"`{_slack(alert.command)}` · {_slack(alert.cluster)} · since {alert.since:%Y-%m-%d %H:%M} UTC"
            blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": context[:_BLOCK_MAX]}]})
            if self._button:
                blocks.append({"type": "actions", "elements": [_button(alert)]})
        return {"text": f"{_WORDS[event]}{by}: {title}", "blocks": blocks}


class PagerDuty(Webhook):
    """PagerDuty's Events API v2. The alert's key is the dedup key: told twice, it pages once."""

    name = "pagerduty"

    def __init__(self, url: str, routing_key: str, secret: str = "") -> None:
        super().__init__(url, secret)
        self._routing_key = routing_key

    def body(self, event: Event, alert: Alert) -> dict[str, Any]:
        """An event; what is over or seen needs no more than its key."""
        addressed = {"routing_key": self._routing_key, "event_action": event, "dedup_key": alert.key[-KEY_MAX:]}
        if event is not Event.TRIGGER:
            return addressed
        return {
            **addressed,
            "client": "Nodemend",
            "links": [{"href": alert.url, "text": "Its page in the Temporal UI"}] if alert.url else [],
            "payload": {
                "summary": f"{alert.title}: {alert.text}"[:_SUMMARY_MAX],
                "source": alert.node or alert.cluster,
                "severity": alert.severity,
                "timestamp": alert.since.isoformat(),
                "component": alert.node,
                "group": alert.cluster,
                "custom_details": {"text": alert.text, "command": alert.command, "incident": alert.key},
            },
        }


def _button(alert: Alert) -> dict[str, Any]:
    words = {"type": "plain_text", "text": "I look at it"}
    return {"type": "button", "action_id": BUTTON, "text": words, "value": alert.key[-KEY_MAX:]}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_BLOCK_MAX]}}


def _slack(text: str) -> str:
    """Without markup: a kernel line must not mention a channel or make a link (Slack, "Escaping text")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
