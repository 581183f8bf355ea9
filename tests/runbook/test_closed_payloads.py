"""With keys set, nothing that Temporal keeps of an incident is readable but its ids and its search attributes."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from temporalio.api.common.v1 import Header, Payload, SearchAttributes
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from contract.incident import IncidentReport
from contract.names import TASK_QUEUE, ActivityName, ErrorType, Outcome, OverrideName, Phase, incident_id
from contract.payload_codec import data_converter
from contract.payload_keys import FOLDER_SETTING
from contract.trace import TRACE_HEADER
from detector.temporal_side import TemporalSide
from tests.runbook.world import WORLDS, Incident, World, fails, finding, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]

WORDS = {"line": "kernel-words-of-the-line", "failure": "words-of-the-failure", "reason": "words-of-a-human"}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    (tmp_path / "2026-12").write_bytes(base64.b64encode(b"\x07" * 32))
    return tmp_path


def payloads(message: Message) -> Iterator[Payload]:
    """Every payload in a message, but search attributes, which Temporal has to read, and headers: see ``headers``."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        values: Any = value
        if field.message_type.GetOptions().map_entry:
            items = list(values.values()) if values else []
        else:
            items = list(values) if field.is_repeated else [values]
        for item in items:
            if isinstance(item, Payload):
                yield item
            elif isinstance(item, Message) and not isinstance(item, SearchAttributes | Header):
                yield from payloads(item)


def headers(message: Message) -> Iterator[tuple[str, Payload]]:
    """What headers carry: the SDK does not close them, so they may hold nothing but the trace's id."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE and not field.message_type.GetOptions().map_entry:
            for item in list(value) if field.is_repeated else [value]:
                if isinstance(item, Header):
                    yield from item.fields.items()
                else:
                    yield from headers(item)


async def test_history_of_an_incident_holds_nothing_readable_from_the_detector_s_report_to_its_end(
    temporal: Client, world: World, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_SETTING, str(keys))
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal.service_client.config.target_host)
    converter = data_converter({FOLDER_SETTING: str(keys)})
    client = await Client.connect(temporal.service_client.config.target_host, data_converter=converter)
    fault = finding(node="node-closed", message=WORDS["line"])
    key = incident_id("test", "node-closed", fault.instance_id)
    WORLDS[key] = world
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED, WORDS["failure"]))
    await TemporalSide().deliver(fault)
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(client, scripted_acts(), executor, TASK_QUEUE, beat=timedelta(seconds=0.1)):
            handle = client.get_workflow_handle(key, result_type=IncidentReport)
            incident = Incident(handle, "node-closed")
            assert WORDS["failure"] in (await incident.until_phase(Phase.NEEDS_HUMAN)).summary
            await incident.press(OverrideName.RESUME, reason=WORDS["reason"])
            report = await incident.result()
    assert report.outcome is Outcome.REPLACED
    assert report.findings[0].message == WORDS["line"]

    history = await handle.fetch_history()
    raw = b"".join(event.SerializeToString() for event in history.events)
    assert not [name for name, words in WORDS.items() if words.encode() in raw]
    # Markers of patches are the SDK's own: a name of a change to the workflow, no data.
    told = [event for event in history.events if event.event_type != EventType.EVENT_TYPE_MARKER_RECORDED]
    found = [payload for event in told for payload in payloads(event)]
    assert len(found) > 20
    assert {payload.metadata["encoding"] for payload in found} == {b"binary/encrypted"}
    carried = [item for event in told for item in headers(event)]
    assert {name for name, _ in carried} == {TRACE_HEADER}
    assert {key for _, payload in carried for key in json.loads(payload.data)} == {"traceparent"}
