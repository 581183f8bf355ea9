"""docs/telemetry.md names what the processes serve: no metric that is not there, none that is not told."""

import re
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from temporalio.client import Client

from contract.names import (
    BUDGET_TASK_QUEUE,
    ESCALATIONS_METRIC,
    FLEET_BUDGET,
    GUARDS_RAISED_METRIC,
    REMEDIATE_NODE,
    TASK_QUEUE,
    Interval,
)
from detector import metrics as detector
from detector.cluster import metrics as watch_cluster
from tests.runbook.conftest import temporal
from tests.runbook.world import Play, World, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker
from worker.metrics import begin_at_zero
from worker.temporal import connect, make_runtime

__all__ = ["temporal"]

PAGE = (Path(__file__).parents[2] / "docs/telemetry.md").read_text()


def documented(section: str) -> dict[str, str]:
    """Names and kinds of one section's table."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return dict(re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) \|", text, re.M))


def served(text: str) -> dict[str, str]:
    """Names and kinds that a process serves, without the Temporal SDK's own."""
    return {name: kind for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M) if "temporal_" not in name}


def labels(text: str, name: str) -> dict[str, str]:
    """Those of the one series of a name."""
    (found,) = re.findall(rf"^{name}{{(.*)}}", text, re.M)
    return dict(re.findall(r'(\w+)="([^"]*)"', found))


def test_detector_serves_what_is_documented() -> None:
    facts = detector.Facts(1, {}, False, False, False, 0, 0, {"hardware": 1}, 0.0, 0, {"R": 1}, {"T": "R"})
    assert served(detector.expose(facts)) == documented("Detector")


def test_watch_cluster_serves_what_is_documented() -> None:
    facts = watch_cluster.Facts(active=True, sent={"ec2": 1}, open={"ec2": 1})
    assert served(watch_cluster.expose(facts)) == documented("watch-cluster")


@pytest.mark.temporal
@pytest.mark.asyncio(loop_scope="session")
async def test_worker_serves_each_interval_of_an_incident_under_documented_names(temporal: Client) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {"target_host": temporal.service_client.config.target_host, "namespace": temporal.namespace}
    runtime = make_runtime(address)
    client = await connect(config, runtime, "telemetry")  # type: ignore[arg-type]
    begin_at_zero(runtime.metric_meter, client.namespace)
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(client, scripted_acts(), executor, "telemetry"):
            await (await Play(client, "telemetry", World()).start()).result()
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        text = answer.read().decode()
    found = served(text)
    assert found.items() <= documented("Worker").items()
    assert "nodemend_interval_seconds" in found
    counted = {
        interval
        for interval in Interval
        if re.search(rf'nodemend_interval_seconds_count{{.*interval="{interval}"', text)
    }
    assert counted == set(Interval)
    # The alert on workers that are away asks for this one of the SDK.
    assert re.search(r'^temporal_num_pollers{.*task_queue="telemetry"', text, re.M)
    # What people are paged by is there before it counts, as the very series that workflows count on.
    counted_by_workflow = labels(text, "nodemend_incidents_closed_total")
    for name, queue, workflow in (
        (ESCALATIONS_METRIC, TASK_QUEUE, REMEDIATE_NODE),
        (GUARDS_RAISED_METRIC, BUDGET_TASK_QUEUE, FLEET_BUDGET),
    ):
        expected = {**counted_by_workflow, "task_queue": queue, "workflow_type": workflow}
        assert labels(text, f"{name}_total") == {k: v for k, v in expected.items() if k not in ("outcome", "group")}
    # A drain of half an hour must not fall beyond the last bucket.
    assert 'le="1800"' in text
