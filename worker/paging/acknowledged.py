"""Who acknowledged what, as PagerDuty and Slack tell it: believed by their signature. Pure; the clock is an argument.

PagerDuty: V3 webhooks, event ``incident.acknowledged`` (PagerDuty, "Webhooks V3", "Verifying Signatures"). Slack: an
interactive button (Slack, "Verifying requests from Slack", "Handling user interaction").
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any, Final
from urllib.parse import parse_qs

BUTTON: Final = "nodemend_acknowledge"
"""``action_id`` of the button; its value is the alert's key."""
_SLACK_WINDOW: Final = timedelta(minutes=5)
"""As Slack advises: an older request is one that was caught and is played again."""
_PAGERDUTY_WINDOW: Final = timedelta(hours=1)
"""PagerDuty signs no time of sending and tries again for a while: what counts is when it happened. That the same
event applies once, its id sees to."""

Headers = Mapping[str, str] | Message


class RefusedError(Exception):
    """Not believed, or not understood. The text is for the log and for whoever sets it up."""


@dataclass(frozen=True)
class Acknowledged:
    """Somebody looks at it."""

    key: str
    """Of the alert."""
    by: str
    id: str
    """Of the act: told twice, it applies once."""


def from_pagerduty(headers: Headers, body: bytes, secret: str, now: datetime) -> Acknowledged | None:
    """An acknowledgement; None where it tells of something else, or a program did it.

    Raises:
        RefusedError: it is not signed with the secret, too old, or no such event.
    """
    # Several while secrets are changed: one that fits will do.
    given = [one.strip() for one in headers.get("X-PagerDuty-Signature", "").split(",")]
    wanted = "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if not any(hmac.compare_digest(wanted.encode(), one.encode()) for one in given):
        raise RefusedError("X-PagerDuty-Signature does not fit NODEMEND_PAGERDUTY_WEBHOOK_SECRET")
    event = _object(_object(_json(body)).get("event"))
    if event.get("event_type") != "incident.acknowledged":
        return None
    agent = _object(event.get("agent") or {})
    if not str(agent.get("type", "")).startswith("user"):
        # Our own acknowledging comes back as an integration's.
        return None
    try:
        at = datetime.fromisoformat(str(event.get("occurred_at")))
    except ValueError:
        raise RefusedError("occurred_at is no time") from None
    _fresh(at.replace(tzinfo=at.tzinfo or UTC), now, _PAGERDUTY_WINDOW)
    key = _text(_object(event.get("data")), "incident_key")
    who = str(agent.get("summary") or agent.get("id") or "somebody")
    return Acknowledged(key, f"{who} (PagerDuty)", f"pagerduty-{_text(event, 'id')}")


def from_slack(headers: Headers, body: bytes, secret: str, now: datetime) -> Acknowledged | None:
    """A pressed button; None where it is another app's or another kind of interaction.

    Raises:
        RefusedError: it is not signed with the secret, too old, or no interaction.
    """
    sent = headers.get("X-Slack-Request-Timestamp", "")
    wanted = "v0=" + hmac.new(secret.encode(), b"v0:" + sent.encode() + b":" + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted.encode(), headers.get("X-Slack-Signature", "").encode()):
        raise RefusedError("X-Slack-Signature does not fit NODEMEND_SLACK_SIGNING_SECRET")
    try:
        at = datetime.fromtimestamp(int(sent), UTC)
    except (ValueError, OverflowError, OSError):
        raise RefusedError("X-Slack-Request-Timestamp is no time") from None
    _fresh(at, now, _SLACK_WINDOW)
    try:
        (payload,) = parse_qs(body.decode(), strict_parsing=True)["payload"]
    except (ValueError, KeyError):
        raise RefusedError("it is no interaction: the field payload is missing") from None
    told = _object(_json(payload.encode()))
    actions = told.get("actions")
    pressed = [one for one in actions if isinstance(one, dict)] if isinstance(actions, list) else []
    ours = [one for one in pressed if one.get("action_id") == BUTTON]
    if not ours:
        return None
    user = _object(told.get("user"))
    who = str(user.get("name") or user.get("username") or user.get("id") or "somebody")
    act = hashlib.sha256(f"{user.get('id')} {ours[0].get('action_ts')}".encode()).hexdigest()[:16]
    return Acknowledged(_text(ours[0], "value"), f"{who} (Slack)", f"slack-{act}")


def _fresh(at: datetime, now: datetime, window: timedelta) -> None:
    if abs(now - at) > window:
        raise RefusedError(f"it is of {at:%Y-%m-%d %H:%M:%S} UTC: too old, or a clock is wrong")


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError("it is no JSON") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError("it has not the form of such an event")
    return value


def _text(where: dict[str, Any], name: str) -> str:
    value = where.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedError(f"{name} is missing")
    return value
