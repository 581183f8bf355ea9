"""What the demo claims, each read back from the API server, AWS, Temporal or the disk after the incident is over.

Nothing here believes the incident's own report: it is one of the things that are checked.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from kubernetes import client
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from cli.demo_faults import Fault
from cli.incidents import Handle, read_budget
from contract.incident import IncidentReport
from contract.names import QUARANTINE_TAINT, REPORT_FAULT, STARTUP_TAINT, Outcome, budget_id
from deploy.jobs.nodemend_checkpoint import SUFFIX, CheckpointAgent
from deploy.local.errors import StackError
from deploy.local.scene import DemoScene, instances, is_ready, nodes, running_pods, wait_for
from deploy.local.stack import Stack
from deploy.local.trainers import Trainer

DEVICES = "aws.amazon.com/neuron"


@dataclass(frozen=True)
class Claim:
    """One claim and what was read."""

    text: str
    proven: bool
    read: str
    """Where, and what."""


@dataclass(frozen=True)
class Before:
    """The scene before the line was written."""

    instances: tuple[str, ...]
    node_uid: str
    pods: frozenset[str]
    """UIDs of the pods on the node that have to leave."""

    @classmethod
    def take(cls, stack: Stack, scene: DemoScene) -> "Before":
        """Look at it."""
        (node,) = [n for n in nodes(stack) if n.metadata.name == scene.node]
        work = [pod for app in _apps(scene) for pod in running_pods(stack, app)]
        return cls(
            instances=tuple(i["InstanceId"] for i in instances(stack, scene.group)),
            node_uid=node.metadata.uid,
            pods=frozenset(pod.metadata.uid for pod in work if pod.spec.node_name == scene.node),
        )


async def prove(
    stack: Stack,
    scene: DemoScene,
    trainers: dict[str, Trainer],
    fault: Fault,
    before: Before,
    handle: Handle,
    report: IncidentReport,
) -> list[Claim]:
    """Read everything back.

    Args:
        stack: the running stack.
        scene: what was set up.
        trainers: the processes of its jobs.
        fault: what was played, and how it has to end.
        before: as it was before the line.
        handle: the incident.
        report: what the incident says of itself.
    """
    claims = [*await _temporal(handle, fault, report)]
    if fault.outcome is Outcome.REPLACED:
        claims += [*_machines(stack, scene, before, report), *_work(stack, scene, before)]
        for job, trainer in trainers.items():
            claims += _trained(scene, job, trainer, report)
    else:
        claims += _untouched(stack, scene, before)
    return claims


async def _temporal(handle: Handle, fault: Fault, report: IncidentReport) -> list[Claim]:
    description = await handle.describe()
    history = await handle.fetch_history()
    reports = [
        event.workflow_execution_signaled_event_attributes
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
        and event.workflow_execution_signaled_event_attributes.signal_name == REPORT_FAULT
    ]
    by = {signal.identity for signal in reports}
    returned, permits = await _permits(handle._client, report)
    closed = description.status is WorkflowExecutionStatus.COMPLETED
    return [
        Claim(
            "the node's own detector reported it, once",
            len(reports) == 1 and all(name.startswith("detector@") for name in by),
            f"Temporal: {len(reports)} {REPORT_FAULT} by {', '.join(sorted(by))}",
        ),
        Claim(
            f"the incident is closed as {fault.outcome}",
            closed and report.outcome is fault.outcome,
            f"Temporal: {report.outcome}, {description.status.name.lower() if description.status else '?'}, "
            f"{description.history_length} events",
        ),
        Claim("its permits are returned", returned, f"Temporal: {permits}"),
        Claim(
            "the record is on disk and says the same",
            _record_agrees(report),
            f"file: {report.facts.get('record', 'none')}",
        ),
    ]


async def _permits(temporal: Client, report: IncidentReport) -> tuple[bool, str]:
    try:
        await temporal.get_workflow_handle(budget_id(report.cluster)).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return True, "FleetBudget was never asked"
    budget = await read_budget(temporal, report.cluster)
    if budget is None:
        return False, "FleetBudget does not answer"
    requests = [*(permit.request for permit in budget.held), *(waiting.request for waiting in budget.queue)]
    mine = [request for request in requests if request.incident_id == report.incident_id]
    return not mine, f"FleetBudget has {len(mine)} of it, out or waiting"


def _machines(stack: Stack, scene: DemoScene, before: Before, report: IncidentReport) -> Iterator[Claim]:
    state = _ec2_state(stack, scene.instance_id)
    yield Claim("the instance is terminated", state == "terminated", f"EC2: {state}")
    now = {i["InstanceId"]: i["LifecycleState"] for i in instances(stack, scene.group)}
    new = sorted(set(now) - set(before.instances))
    yield Claim(
        "exactly one instance was replaced",
        len(now) == len(before.instances) and set(before.instances) - set(now) == {scene.instance_id} and len(new) == 1,
        f"Auto Scaling: {len(now)} instances, new: {', '.join(new)}",
    )
    yield Claim(
        "it is the one that the incident claimed",
        new == [report.replacement_instance_id],
        f"report: {report.replacement_instance_id}",
    )
    by_name = {n.metadata.name: n for n in nodes(stack)}
    yield Claim("the old Node is gone", scene.node not in by_name, f"API server: {len(by_name)} nodes")
    node: Any = by_name.get(report.replacement_node or "")
    if node is None:
        yield Claim("the replacement is in the cluster", False, f"API server: no Node {report.replacement_node}")
        return
    taints = [taint.key for taint in node.spec.taints or []]
    devices = (node.status.allocatable or {}).get(DEVICES)
    yield Claim(
        "the new Node is Ready with 16 devices and open to work",
        is_ready(node) and devices == "16" and STARTUP_TAINT not in taints and not node.spec.unschedulable,
        f"API server: Ready {is_ready(node)}, {devices} {DEVICES}, taints {taints or 'none'}",
    )
    yield Claim(
        "it is another machine in the same zone",
        node.metadata.uid != before.node_uid and f"/{scene.zone}/" in node.spec.provider_id,
        f"API server: {node.spec.provider_id}",
    )


def _work(stack: Stack, scene: DemoScene, before: Before) -> Iterator[Claim]:
    wanted = {scene.training_job: 4, scene.feature_job: 2, scene.web: 3}
    with suppress(StackError):
        # The job controller waits about ten seconds before it makes up for evicted pods.
        wait_for(lambda: all(len(running_pods(stack, app)) == n for app, n in wanted.items()), "the pods", 45.0)
    counts = {app: len(running_pods(stack, app)) for app in wanted}
    still = {p.metadata.uid for app in wanted for p in running_pods(stack, app)} & before.pods
    yield Claim(
        "all work runs again, elsewhere",
        counts == wanted and not still,
        "API server: " + ", ".join(f"{n} of {wanted[app]} {app}" for app, n in counts.items()),
    )
    with stack.kubernetes.connected() as api:
        policy: Any = client.PolicyV1Api(api)
        budget = policy.read_namespaced_pod_disruption_budget(scene.web, scene.namespace).status
        core: Any = client.CoreV1Api(api)
        events = [
            event
            for event in core.list_namespaced_event("default").items
            if event.involved_object.uid == before.node_uid
        ]
    yield Claim(
        "the web service is as healthy as its budget wants",
        budget.current_healthy >= budget.desired_healthy,
        f"API server: {budget.current_healthy} healthy, {budget.desired_healthy} wanted",
    )
    reasons = sorted({event.reason for event in events if "odemend" in str(event.source.component)})
    yield Claim(
        "Events on the Node told of the fault and the quarantine",
        {"NodemendQuarantined"} < set(reasons),
        f"API server: {', '.join(reasons)}",
    )


def _trained(scene: DemoScene, job: str, trainer: Trainer, report: IncidentReport) -> Iterator[Claim]:
    """One job: asked or not as the fault allows, resumed where it should, and past it."""
    told = report.facts.get(f"checkpoint {scene.namespace}/Job/{job}", "")
    manifests = _manifests(trainer)
    asked = [item for item in manifests if item["nonce"]]
    since = report.plan.evidence_since if report.plan and report.plan.data == "suspect" else None
    if since and job == scene.training_job:
        # It holds the failing device. The other holds none: what that computed can be believed whatever the fault.
        good = [item for item in manifests if datetime.fromisoformat(str(item["time"])) < since]
        wanted = good[-1] if good else {"step": None}
        yield Claim(
            f"{job} was not asked; its step {wanted['step']} from before the fault is named",
            not asked and f"step {wanted['step']} " in told,
            f"disk: {len(asked)} were asked for; report: {told}",
        )
    else:
        wanted = asked[-1] if asked else {"step": None}
        yield Claim(
            f"{job} was asked once, saved step {wanted['step']}, and its checksums hold",
            len(asked) == 1 and str(wanted["uri"]) in told and CheckpointAgent(trainer.folder).is_whole(wanted),
            f"disk: {len(asked)} were asked for; report: {told}",
        )
    resumed, at, step = trainer.resumed_at, trainer.at(), wanted["step"]
    # A job that can be believed trains on until it is evicted, and may have saved by itself once more.
    exact = bool(since) and job == scene.training_job
    seen = report.facts.get(f"resumed {scene.namespace}/Job/{job}", "")
    yield Claim(
        f"{job} resumed from step {step}{'' if exact else ' or later'} and is past it",
        step is not None
        and len(resumed) == 2
        and (resumed[1] == step + 1 if exact else resumed[1] > step)
        and at > step
        and seen.startswith("past its checkpoint"),
        f"its process: took up at steps {resumed}, is at step {at}; report: {seen}",
    )


def _untouched(stack: Stack, scene: DemoScene, before: Before) -> Iterator[Claim]:
    state = _ec2_state(stack, scene.instance_id)
    yield Claim("the instance still runs", state == "running", f"EC2: {state}")
    now = tuple(i["InstanceId"] for i in instances(stack, scene.group))
    yield Claim("no instance was replaced", set(now) == set(before.instances), f"Auto Scaling: {len(now)} instances")
    node = next((n for n in nodes(stack) if n.metadata.name == scene.node), None)
    if node is None:
        yield Claim("the node is open to work", False, "API server: it is gone")
        return
    marks = [taint.key for taint in node.spec.taints or [] if taint.key == QUARANTINE_TAINT]
    yield Claim(
        "the node is open to work",
        not node.spec.unschedulable and not marks,
        f"API server: unschedulable {bool(node.spec.unschedulable)}, our taints {marks or 'none'}",
    )
    work = {pod.metadata.uid for app in _apps(scene) for pod in running_pods(stack, app)}
    yield Claim("its pods were left alone", before.pods <= work, f"API server: {len(before.pods & work)} still there")


def _record_agrees(report: IncidentReport) -> bool:
    # The report comes first; the audit log stands beside it.
    first = report.facts.get("record", "").partition(", ")[0]
    path = Path(urlparse(first).path)
    if not path.is_file():
        return False
    written = IncidentReport.model_validate_json(path.read_text(encoding="utf-8"))
    return (written.incident_id, written.outcome, written.steps) == (report.incident_id, report.outcome, report.steps)


def _ec2_state(stack: Stack, instance_id: str) -> str:
    answer = stack.aws.client("ec2").describe_instances(InstanceIds=[instance_id])
    found = [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]
    return str(found[0]["State"]["Name"]) if found else "unknown to EC2"


def _manifests(trainer: Trainer) -> list[dict[str, Any]]:
    """All that there are, oldest first."""
    return [json.loads(path.read_text()) for path in sorted(trainer.folder.glob(f"step-*{SUFFIX}"))]


def _apps(scene: DemoScene) -> tuple[str, str, str]:
    return scene.training_job, scene.feature_job, scene.web
