"""What needs a human reaches one, once, in the shape of each place, and says when it is over (issue 8, "Paging")."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.posting import NotTakenError
from contract.budget import Guard
from contract.names import ActivityName, ErrorType, OverrideName, Phase
from contract.permit import BudgetState
from contract.signing import SIGNATURE, TIMESTAMP, signature
from tests.reporting.receiver import Receiver, receiving
from tests.runbook.world import Play, World, fails
from worker.paging.alerts import Alert, Event, Told, of_budget, of_incident, of_nodes
from worker.paging.main import Pager
from worker.paging.sources import Sources
from worker.paging.webhooks import PagerDuty, PlainJson, Slack

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def alert(key: str = "remediate-test-node-1-i-1", **changes: Any) -> Alert:
    usual: dict[str, Any] = {
        "key": key,
        "title": "node-1 needs a human at drain",
        "text": "drain failed: a budget allows no eviction.",
        "cluster": "test",
        "node": "node-1",
        "since": NOW,
    }
    return Alert(**{**usual, **changes})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


# --- what is told, and when ------------------------------------------------------------------------------------------


KEYS = st.sampled_from(["a", "b", "c"])
LOOKS = st.lists(st.dictionaries(KEYS, st.booleans()), max_size=12)
"""Each look: alerts that are there, and whether somebody acknowledged them."""


@given(looks=LOOKS)
def test_each_change_is_told_once_and_in_the_end_everything_is_known(looks: list[dict[str, bool]]) -> None:
    told = Told()
    for look in looks:
        current = [alert(key, acknowledged_by="ada" if seen else "") for key, seen in look.items()]
        while due := list(told.due(current)):
            for event, one in due:
                told = told.after(event, one)
        assert set(told.events) == set(look)
        assert all(told.events[key] is Event.ACKNOWLEDGE for key, seen in look.items() if seen)
        assert not list(told.due(current))


def test_what_is_over_is_resolved_though_it_is_seen_no_more() -> None:
    told = Told().after(Event.TRIGGER, alert())
    assert [(event, one.key) for event, one in told.due([])] == [(Event.RESOLVE, alert().key)]


# --- where alerts come from ------------------------------------------------------------------------------------------


def test_a_common_cause_is_an_alert_while_its_guard_is_up() -> None:
    up = Guard(fault="hbm", since=NOW, last=NOW, nodes=5, words="hbm on 5 nodes within 10 min")
    cleared = up.model_copy(update={"fault": "other", "cleared_at": NOW})
    (one,) = of_budget(BudgetState(cluster="test", guards=(up, cleared)))
    assert (one.key, one.text) == ("fleet-budget-test/hbm", "hbm on 5 nodes within 10 min")


@pytest.mark.parametrize(
    ("kind", "status", "reason", "blind"),
    [
        ("KernelLogHealth", "True", "KernelLogUnreadable", True),
        ("KernelLogHealth", "True", "KernelLogSilent", True),
        ("KernelLogHealth", "True", "KernelLogLossy", False),
        ("KernelLogHealth", "False", "KernelLogUnreadable", False),
        ("NeuronBlind", "True", "Whatever", True),
        ("Ready", "True", "KubeletReady", False),
    ],
)
def test_a_node_whose_detector_sees_nothing_is_an_alert(kind: str, status: str, reason: str, blind: bool) -> None:
    condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "/dev/kmsg is gone",
        "lastTransitionTime": "2026-12-01T12:00:00Z",
    }
    found = of_nodes("test", [{"metadata": {"name": "node-1"}, "status": {"conditions": [condition]}}])
    assert [one.key for one in found] == (["blind-test-node-1"] if blind else [])


# --- how it is told --------------------------------------------------------------------------------------------------


def test_pagerduty_pages_once_for_an_incident_and_is_told_its_end_by_the_same_key(receiver: Receiver) -> None:
    place = PagerDuty(receiver.url, "routing-key")
    for event in Event:
        place.tell(event, alert(url="https://ui.example/x"))
    assert [(sent["event_action"], sent["dedup_key"], sent["routing_key"]) for sent in receiver.taken] == [
        (event, alert().key, "routing-key") for event in ("trigger", "acknowledge", "resolve")
    ]
    payload = receiver.taken[0]["payload"]
    assert payload["summary"] == "node-1 needs a human at drain: drain failed: a budget allows no eviction."
    assert (payload["source"], payload["severity"]) == ("node-1", "critical")
    assert receiver.taken[0]["links"][0]["href"] == "https://ui.example/x"


def test_slack_gets_blocks_in_which_a_kernel_line_is_no_markup(receiver: Receiver) -> None:
    hostile = "<!channel> <https://evil.example|click> & more"
    Slack(receiver.url).tell(Event.TRIGGER, alert(text=hostile))
    (sent,) = receiver.taken
    assert sent["blocks"][1]["text"]["text"] == "&lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; more"


def test_what_is_sent_is_signed_with_its_time(receiver: Receiver) -> None:
    PlainJson(receiver.url, "s3cret").tell(Event.TRIGGER, alert())
    ((headers, data),) = receiver.raw
    assert headers[SIGNATURE] == signature(b"s3cret", headers[TIMESTAMP], data)
    assert headers[SIGNATURE] != signature(b"s3cret", headers[TIMESTAMP], data + b" ")
    assert json.loads(data)["alert"]["key"] == alert().key


def test_a_place_that_is_busy_is_told_again_at_once(receiver: Receiver) -> None:
    receiver.refusals = [503, 429]
    PlainJson(receiver.url).tell(Event.TRIGGER, alert())
    assert len(receiver.taken) == 1


def test_a_refusal_does_not_tell_the_address_which_is_the_secret(receiver: Receiver) -> None:
    receiver.closed = True
    with pytest.raises(NotTakenError) as refused:
        Slack(receiver.url).tell(Event.TRIGGER, alert())
    assert receiver.url not in str(refused.value)
    with pytest.raises(NotTakenError, match="cannot be reached") as unreachable:
        Slack("http://127.0.0.1:1/services/T0/secret").tell(Event.TRIGGER, alert())
    assert "secret" not in str(unreachable.value)


@pytest.mark.asyncio
async def test_a_place_that_takes_nothing_keeps_no_other_one_waiting_and_is_told_later(
    receiver: Receiver, tmp_path: Path
) -> None:
    with receiving() as other:
        receiver.closed = True
        pager = Pager(_reading([alert()]), [Slack(receiver.url), PlainJson(other.url)], tmp_path / "pager.json")
        await pager.look()
        assert (len(receiver.taken), len(other.taken)) == (0, 1)
        receiver.closed = False
        await pager.look()
        assert (len(receiver.taken), len(other.taken)) == (1, 1)


class Hanging(PlainJson):
    """Takes the connection, and answers once it is let."""

    name = "hanging"

    def __init__(self, let_go: threading.Event) -> None:
        super().__init__("http://127.0.0.1:1/never-asked")
        self.let_go, self.asked = let_go, 0

    def tell(self, *_: Any) -> None:
        self.asked += 1
        self.let_go.wait(60)


@pytest.mark.asyncio
async def test_a_place_that_hangs_has_no_other_one_paged_late(tmp_path: Path) -> None:
    """One look after the other: the place that hangs is asked once, the other one hears of each alert."""
    answer = threading.Event()
    hanging, now = Hanging(answer), [alert()]
    with receiving() as other:
        pager = Pager(_reading(now), [hanging, PlainJson(other.url)], tmp_path / "pager.json")
        try:
            while len(other.taken) < 1:
                await pager.look(within=0.05)
            now.append(alert("remediate-test-node-2-i-2"))
            while len(other.taken) < 2:
                await pager.look(within=0.05)
            assert hanging.asked == 1
        finally:
            answer.set()
        while hanging.asked < 2:
            await pager.look()
    assert [one["alert"]["key"] for one in other.taken] == [one.key for one in now]


@pytest.mark.parametrize(
    ("refusals", "words"), [([500] * 4, "500"), ([403], "403")], ids=["it is broken", "it does not want"]
)
def test_who_takes_nothing_is_told_of_in_words(receiver: Receiver, refusals: list[int], words: str) -> None:
    receiver.refusals = refusals
    with pytest.raises(NotTakenError, match=f"answer.*{words}"):
        PlainJson(receiver.url).tell(Event.TRIGGER, alert())


@pytest.mark.asyncio
async def test_a_pager_that_starts_again_repeats_nothing_and_resolves_what_ended_meanwhile(
    receiver: Receiver, tmp_path: Path
) -> None:
    for alerts in ([alert()], [alert()], []):
        await Pager(_reading(alerts), [PlainJson(receiver.url)], tmp_path / "pager.json").look()
    assert [sent["event"] for sent in receiver.taken] == ["trigger", "resolve"]


# --- an incident -----------------------------------------------------------------------------------------------------


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_an_incident_that_waits_for_a_human_pages_is_acknowledged_and_resolved(
    play: Play, world: World, receiver: Receiver, tmp_path: Path
) -> None:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED, "A budget allows no eviction."))
    incident = await play.start()
    await incident.until_phase(Phase.NEEDS_HUMAN)
    sources = Sources(play.client, list, "test")
    place = PagerDuty(receiver.url, "key")

    async def mine() -> list[Alert]:
        return [one for one in await sources.read() if one.key == incident.handle.id]

    async def seen(event: Event) -> None:
        # Temporal lists a workflow a moment after it changed.
        while not receiver.taken or receiver.taken[-1]["event_action"] != event:
            await Pager(mine, [place], tmp_path / "pager.json").look()

    await seen(Event.TRIGGER)
    assert "A budget allows no eviction." in receiver.taken[0]["payload"]["summary"]
    await incident.press(OverrideName.ACKNOWLEDGE, by="grace")
    await seen(Event.ACKNOWLEDGE)
    await incident.press(OverrideName.RESUME)
    await incident.result()
    await seen(Event.RESOLVE)
    assert [sent["event_action"] for sent in receiver.taken] == ["trigger", "acknowledge", "resolve"]


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_who_acknowledged_an_earlier_failure_has_not_seen_the_next_one(play: Play, world: World) -> None:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED, "A budget allows no eviction."))
    incident = await play.start()
    report = await incident.until_phase(Phase.NEEDS_HUMAN)
    await incident.press(OverrideName.ACKNOWLEDGE, by="grace")
    report = await incident.now()
    first = of_incident(report)
    assert first
    assert first.acknowledged_by == "grace"
    resumed = report.overrides[0].model_copy(update={"name": OverrideName.RESUME})
    again = of_incident(report.model_copy(update={"overrides": (*report.overrides, resumed)}))
    assert again
    assert not again.acknowledged_by
    told = Told().after(Event.TRIGGER, first).after(Event.ACKNOWLEDGE, first)
    assert [event for event, _ in told.due([again])] == [Event.TRIGGER]
    await incident.press(OverrideName.RESUME)
    await incident.result()


def _reading(alerts: list[Alert]) -> Any:
    async def read() -> list[Alert]:
        return alerts

    return read


def test_wait_that_its_incident_tells_again_pages_again_unless_somebody_looks_at_it() -> None:
    told = Told().after(Event.TRIGGER, alert())
    again = alert(told_again=1)
    assert [event for event, _ in told.due([again])] == [Event.TRIGGER]
    told = told.after(Event.TRIGGER, again)
    assert not list(told.due([again]))
    told = told.after(Event.ACKNOWLEDGE, alert(told_again=1, acknowledged_by="ada"))
    assert not list(told.due([alert(told_again=2, acknowledged_by="ada")]))
