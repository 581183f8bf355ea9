"""``nodemend page`` as it is installed: a process beside an incident, told of through real HTTP in both directions."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3

from contract.audit import audit_log
from contract.names import ActivityName, ErrorType, ExitCode, OverrideName, Phase
from contract.signing import SIGNATURE, TIMESTAMP, signature
from deploy.local.process import free_ports
from tests.operating.command import NODEMEND, clean_environment
from tests.operating.test_worker_start import kubeconfig
from tests.reporting.receiver import Receiver, receiving
from tests.reporting.test_acknowledged_there import SECRET, pagerduty
from tests.runbook.world import Play, World, fails

pytestmark = [pytest.mark.temporal, pytest.mark.thorough, pytest.mark.asyncio(loop_scope="session")]


@contextmanager
def paging(play: Play, receiver: Receiver, folder: Path) -> Iterator[str]:
    """The process; where it takes acknowledgements. No cluster answers it: incidents are paged all the same."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    environment = clean_environment(
        TEMPORAL_ADDRESS=play.client.service_client.config.target_host,
        KUBECONFIG=kubeconfig(folder, "https://127.0.0.1:9"),
        NODEMEND_CLUSTER="test",
        NODEMEND_RECORD_DIR=str(folder),
        NODEMEND_WEBHOOK_URL=receiver.url,
        NODEMEND_WEBHOOK_SECRET=SECRET,
        NODEMEND_PAGE_EVERY="0.2",
        NODEMEND_ACKNOWLEDGE_ADDRESS=address,
        NODEMEND_PAGERDUTY_WEBHOOK_SECRET=SECRET,
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([NODEMEND, "page"], env=environment, stderr=log)
        try:
            yield f"http://{address}/pagerduty"
        finally:
            process.terminate()
            assert process.wait(60) == ExitCode.OK, (folder / "log").read_text()


async def told(receiver: Receiver, incident: str, wanted: Callable[[list[str]], bool]) -> list[str]:
    """The events of an incident that the receiver took, once they are as wanted."""
    async with asyncio.timeout(60):
        while not wanted(events := [one["event"] for one in receiver.taken if one["alert"]["key"] == incident]):
            await asyncio.sleep(0.05)
    return events


async def test_page_comes_signed_through_an_outage_and_who_acknowledges_it_stops_it_and_is_in_record_and_audit(
    play: Play, world: World, tmp_path: Path
) -> None:
    world.on(ActivityName.DRAIN_NODE, fails(ErrorType.DRAIN_BLOCKED))
    with receiving() as receiver:
        receiver.refusals = [500] * 6
        incident = await play.start()
        await incident.until_phase(Phase.NEEDS_HUMAN)
        with paging(play, receiver, tmp_path) as inbox:
            await told(receiver, incident.handle.id, lambda events: events == ["trigger"])
            assert receiver.refusals == [], "it was told though it refused at first"
            for headers, body in receiver.raw:
                assert headers[SIGNATURE] == signature(SECRET.encode(), headers[TIMESTAMP], body)
            status = await asyncio.to_thread(_acknowledge, inbox, incident.handle.id)
            assert status == 200
            await told(receiver, incident.handle.id, lambda events: events == ["trigger", "acknowledge"])
            # What people do goes on while nobody can be told.
            receiver.closed = True
            await incident.press(OverrideName.RESUME)
            report = await incident.result()
            receiver.closed = False
            await told(receiver, incident.handle.id, lambda events: events == ["trigger", "acknowledge", "resolve"])
    who = "Grace Hopper (PagerDuty)"
    assert (report.overrides[0].name, report.overrides[0].by) == (OverrideName.ACKNOWLEDGE, who)
    assert [line.by for line in audit_log(report) if line.what == OverrideName.ACKNOWLEDGE] == [who]


def _acknowledge(inbox: str, incident: str) -> int:
    headers, body = pagerduty(incident, datetime.now(UTC))
    answer: Any = urllib3.PoolManager(retries=False).request("POST", inbox, body=body, headers=headers)
    return int(answer.status)
