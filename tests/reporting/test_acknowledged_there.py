"""Acknowledging in PagerDuty or Slack is in the incident's record: believed by signature, fresh, once (issue 8)."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio
import urllib3
from hypothesis import assume, given
from hypothesis import strategies as st
from temporalio.client import Client

from contract.address import Address
from contract.names import ActivityName, ErrorType, OverrideName, Phase
from tests.reporting.receiver import receiving
from tests.reporting.test_paging import alert
from tests.runbook.world import Incident, Play, World, fails
from worker.errors import StartError
from worker.paging.acknowledged import BUTTON, Acknowledged, RefusedError, from_pagerduty, from_slack
from worker.paging.alerts import Event, of_incident
from worker.paging.inbox import Inbox, acknowledge, readers
from worker.paging.main import PagerSettings
from worker.paging.webhooks import Slack

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
SECRET = "s3cret"
KEY = "remediate-test-node-1-i-1"


def pagerduty(key: str = KEY, now: datetime = NOW, **changes: Any) -> tuple[dict[str, str], bytes]:
    """A V3 webhook as PagerDuty's documentation has it."""
    event = {
        "id": "01DEN0V1VPFQYPHQ6FD5IIIPPT",
        "event_type": "incident.acknowledged",
        "resource_type": "incident",
        "occurred_at": now.isoformat().replace("+00:00", "Z"),
        "agent": {"id": "PLH1HKV", "summary": "Grace Hopper", "type": "user_reference"},
        "client": None,
        "data": {"id": "PGR0VU2", "type": "incident", "status": "acknowledged", "incident_key": key},
        **changes,
    }
    body = json.dumps({"event": event}).encode()
    return {"X-PagerDuty-Signature": "v1=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}, body


def slack(key: str = KEY, now: datetime = NOW, *, action: str = BUTTON, **changes: Any) -> tuple[dict[str, str], bytes]:
    """A pressed button as Slack's documentation has it."""
    payload = {
        "type": "block_actions",
        "user": {"id": "UA8RXUSPL", "username": "grace", "name": "grace", "team_id": "T9TK3CUKW"},
        "actions": [{"action_id": action, "type": "button", "value": key, "action_ts": "1548426417.840180"}],
        **changes,
    }
    body = urlencode({"payload": json.dumps(payload)}).encode()
    sent = str(int(now.timestamp()))
    signed = hmac.new(SECRET.encode(), f"v0:{sent}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": sent, "X-Slack-Signature": f"v0={signed}"}, body


WAYS = [(pagerduty, from_pagerduty, "Grace Hopper (PagerDuty)"), (slack, from_slack, "grace (Slack)")]
EACH_WAY = pytest.mark.parametrize(("made", "read", "by"), WAYS, ids=["pagerduty", "slack"])


@EACH_WAY
def test_what_is_signed_says_which_alert_and_who(made: Any, read: Any, by: str) -> None:
    said = read(*made(), SECRET, NOW)
    assert (said.key, said.by) == (KEY, by)
    assert read(*made(), SECRET, NOW).id == said.id, "the same event is the same act"


def test_slack_signs_as_its_documentation_computes_it() -> None:
    """Slack, "Verifying requests from Slack", the example."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name="
        b"foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2F"
        b"hooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.4744"
        b"5629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "X-Slack-Request-Timestamp": "1531420618",
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    with pytest.raises(RefusedError, match="no interaction"):
        from_slack(headers, body, "8f742231b10e8888abcd99yyyzzz85a5", datetime.fromtimestamp(1531420618, UTC))


@EACH_WAY
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_changed_bit_is_not_believed(made: Any, read: Any, by: str, at: int, bit: int) -> None:
    headers, body = made()
    changed = bytearray(body)
    changed[at % len(body)] ^= 1 << bit
    with pytest.raises(RefusedError, match="does not fit"):
        read(headers, bytes(changed), SECRET, NOW)


@EACH_WAY
@given(signature=st.text(max_size=80))
def test_no_other_signature_is_believed(made: Any, read: Any, by: str, signature: str) -> None:
    headers, body = made()
    assume(signature not in headers.values())
    for forged in ({}, dict.fromkeys(headers, signature)):
        with pytest.raises(RefusedError):
            read(forged, body, SECRET, NOW)
    with pytest.raises(RefusedError):
        read(headers, body, "another secret", NOW)


@EACH_WAY
@pytest.mark.parametrize("later", [timedelta(hours=2), -timedelta(hours=2)])
def test_what_was_caught_and_is_played_again_later_is_refused(made: Any, read: Any, by: str, later: timedelta) -> None:
    with pytest.raises(RefusedError, match="too old"):
        read(*made(), SECRET, NOW + later)


def test_pagerduty_may_sign_with_several_secrets_while_they_are_changed() -> None:
    headers, body = pagerduty()
    headers["X-PagerDuty-Signature"] = "v1=of-another-secret, " + headers["X-PagerDuty-Signature"]
    assert from_pagerduty(headers, body, SECRET, NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"event_type": "incident.resolved"},
        {"event_type": "pagey.ping", "data": {"message": "Hello"}},
        {"agent": None},
        {"agent": {"type": "inbound_integration_reference", "summary": "Events API"}},
    ],
    ids=["another event", "a ping", "nobody", "our own acknowledging that comes back"],
)
def test_pagerduty_tells_of_other_things_too_which_are_taken_and_change_nothing(changes: dict[str, Any]) -> None:
    assert from_pagerduty(*pagerduty(**changes), SECRET, NOW) is None


def test_button_of_another_app_changes_nothing() -> None:
    assert from_slack(*slack(action="deploy"), SECRET, NOW) is None


def signed(make: Any, body: bytes) -> tuple[dict[str, str], bytes]:
    """A body of one's own, signed."""
    if make is pagerduty:
        return {"X-PagerDuty-Signature": "v1=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}, body
    sent = str(int(NOW.timestamp()))
    mark = hmac.new(SECRET.encode(), f"v0:{sent}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": sent, "X-Slack-Signature": f"v0={mark}"}, body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
EVENT = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "event_type", "occurred_at", "agent", "data", "actions", "user"), JSON)
)


@EACH_WAY
@given(body=st.binary(max_size=60) | EVENT.map(lambda event: json.dumps({"event": event, **event}).encode()))
def test_whatever_is_signed_is_understood_or_refused_and_breaks_nothing(
    made: Any, read: Any, by: str, body: bytes
) -> None:
    bodies = [body, b"payload=" + body, urlencode({"payload": body}).encode()]
    for one in bodies:
        try:
            said = read(*signed(made, one), SECRET, NOW)
        except RefusedError:
            continue
        assert said is None or isinstance(said, Acknowledged)


def test_slack_is_offered_the_button_where_pressing_it_is_listened_to() -> None:
    with receiving() as receiver:
        Slack(receiver.url, button=True).tell(Event.TRIGGER, alert())
        Slack(receiver.url).tell(Event.TRIGGER, alert())
        Slack(receiver.url, button=True).tell(Event.RESOLVE, alert())
    buttons = [block for sent in receiver.taken for block in sent["blocks"] if block["type"] == "actions"]
    (button,) = buttons
    assert (button["elements"][0]["action_id"], button["elements"][0]["value"]) == (BUTTON, alert().key)


# --- at a running incident -------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="session")
async def waiting(play: Play, world: World) -> AsyncIterator[Incident]:
    """An incident that needs a human."""
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    yield incident
    await incident.press(OverrideName.RESUME)
    await incident.result()


async def post(inbox: Inbox, path: str, headers: dict[str, str], body: bytes) -> int:
    answer = await asyncio.to_thread(
        urllib3.PoolManager(retries=False).request, "POST", inbox.url + path, body=body, headers=headers
    )
    return answer.status


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_acknowledging_there_is_in_the_record_once_and_only_of_what_is_open(
    temporal: Client, waiting: Incident
) -> None:
    async def take(said: Acknowledged) -> tuple[HTTPStatus, str]:
        return await acknowledge(temporal, lambda: {waiting.handle.id, "blind-test-node-9"}, said)

    inbox, now = Inbox(Address("127.0.0.1", 0), readers(SECRET, SECRET), take), datetime.now(UTC)
    try:
        for _ in range(2):
            assert await post(inbox, "/pagerduty", *pagerduty(waiting.handle.id, now)) == HTTPStatus.OK
            assert await post(inbox, "/slack", *slack(waiting.handle.id, now)) == HTTPStatus.OK
        report = await waiting.until(lambda report: len(report.overrides) == 2)
        assert [(one.name, one.by, one.accepted) for one in report.overrides] == [
            (OverrideName.ACKNOWLEDGE, "Grace Hopper (PagerDuty)", True),
            (OverrideName.ACKNOWLEDGE, "grace (Slack)", True),
        ]
        told = of_incident(report)
        assert told
        assert told.acknowledged_by == "grace (Slack)"
        for key in ("remediate-test-of-another-cluster", "blind-test-node-9"):
            assert await post(inbox, "/pagerduty", *pagerduty(key, now)) == HTTPStatus.OK, "no reason to tell it again"
        _, body = pagerduty(waiting.handle.id, now)
        forged = {"X-PagerDuty-Signature": "v1=00"}
        assert await post(inbox, "/pagerduty", forged, body) == HTTPStatus.UNAUTHORIZED
        assert await post(inbox, "/other", {}, b"") == HTTPStatus.NOT_FOUND
        assert len((await waiting.now()).overrides) == 2
    finally:
        inbox.close()


def test_listening_without_a_secret_to_believe_anybody_by_is_refused_at_the_start() -> None:
    settings = PagerSettings(cluster="test", slack_url="https://hooks.example/x", acknowledge_address="127.0.0.1:0")
    with pytest.raises(StartError, match="NODEMEND_SLACK_SIGNING_SECRET"):
        settings.readers()


def test_only_those_are_listened_to_whose_secret_is_set() -> None:
    assert set(readers(SECRET, "")) == {"/pagerduty"}
    assert set(readers("", SECRET)) == {"/slack"}
    assert readers("", "") == {}
