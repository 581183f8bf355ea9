"""A world for the runbook: every act answers as told, and remembers what it was asked.

This is no double of Kubernetes or AWS: it stands for the acts, so that the order of the runbook, its obedience and
its answers to failure can be tested on a real Temporal server. The acts themselves are tested on a real cluster.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError

from contract import acts, gang
from contract.corroboration import Circumstances
from contract.fault import DataTrust, FaultReport, RemediationRequest, Verdict
from contract.identity import NodeIdentity
from contract.incident import IncidentReport
from contract.names import (
    INCIDENT_QUERY,
    NON_RETRYABLE,
    REMEDIATE_NODE,
    REPORT_FAULT,
    ActivityName,
    ErrorType,
    OverrideName,
    Phase,
    incident_id,
)
from contract.permit import AskPermit, PermitAnswer, ReturnPermits
from contract.policy import Deadlines, GroupPolicy, Mode
from contract.price import JobPrice, Price, PriceDisruption

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
Script = Callable[[Any], Any]


def fast(**changes: Any) -> GroupPolicy:
    """A policy that acts, without quiet times."""
    deadlines = Deadlines(settle=timedelta(0), soak=timedelta(0))
    return GroupPolicy(**{"mode": Mode.ACT, "deadlines": deadlines, **changes})


def finding(**changes: Any) -> FaultReport:
    """The demo's fault."""
    usual: dict[str, Any] = {
        "cluster": "test",
        "node": "node-1",
        "instance_id": "i-0123456789abcdef0",
        "boot_id": "boot-1",
        "seq": 100,
        "rule": "neuron-hbm-uncorrectable",
        "component": "neuron",
        "verdict": Verdict.HARDWARE,
        "data": DataTrust.SUSPECT,
        "device_resource": "aws.amazon.com/neuron",
        "condition_type": "NeuronHealth",
        "reason": "NeuronHasError_HBM_UNCORRECTABLE_ERROR",
        "signature": "neuron-hbm-uncorrectable/3/HBM_UNCORRECTABLE_ERROR",
        "message": "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3",
        "facility": 0,
        "level": 3,
        "kernel_time_us": 1,
        "first_seen": NOW,
        "last_seen": NOW,
    }
    return FaultReport(**{**usual, **changes})


def identity(**changes: Any) -> NodeIdentity:
    """A node that can be replaced."""
    usual: dict[str, Any] = {
        "cluster": "test",
        "node": "node-1",
        "node_uid": "uid-1",
        "boot_id": "boot-1",
        "provider_id": "aws:///us-west-2a/i-0123456789abcdef0",
        "instance_id": "i-0123456789abcdef0",
        "group": "trn1",
        "zone": "us-west-2a",
        "instance_type": "trn1.32xlarge",
        "devices": {"aws.amazon.com/neuron": 16},
    }
    return NodeIdentity(**{**usual, **changes})


def fails(kind: ErrorType, message: str = "It did not work. Mend it.") -> Script:
    """An act that fails with this type."""

    def script(_argument: Any) -> Any:
        raise ApplicationError(message, type=kind, non_retryable=kind in NON_RETRYABLE)

    return script


class Stuck:
    """An act that works until it is let go or cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.let_go = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, argument: Any) -> Any:
        self.started.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            self.started.clear()
            raise
        return World.usual(argument)


@dataclass
class World:
    """Scripts by act, and the calls that came."""

    policy: GroupPolicy = field(default_factory=fast)
    who: NodeIdentity | None = field(default_factory=identity)
    around: Circumstances | None = None
    """What `identify` finds around a doubtful finding; None for a worker from before corroboration."""
    scripts: dict[ActivityName, Script] = field(default_factory=dict)
    calls: list[tuple[ActivityName, Any]] = field(default_factory=list)

    def on(self, name: ActivityName, *scripts: Script) -> None:
        """Answer with each script in turn, then as usual."""
        left = list(scripts)

        def script(argument: Any) -> Any:
            return left.pop(0)(argument) if left else self.answer(name, argument)

        self.scripts[name] = script

    def names(self) -> list[str]:
        """The acts in the order in which they were asked for."""
        return [str(name) for name, _ in self.calls]

    def arguments(self, name: ActivityName) -> list[Any]:
        """What an act was asked."""
        return [argument for called, argument in self.calls if called is name]

    def answer(self, name: ActivityName, argument: Any) -> Any:
        """The usual answer of an act."""
        if name is ActivityName.IDENTIFY_NODE:
            permit = PermitAnswer(token="t", granted=True) if self.policy.mode is Mode.ACT else None
            return acts.NodeFacts(
                identified=acts.Identified.FOUND,
                explanation="It is what the report says.",
                identity=self.who,
                policy=self.policy,
                policy_version="v1",
                permit=permit,
                proven=tuple(report.key for report in argument.reports),
                circumstances=self.around,
            )
        return self.usual(argument)

    @staticmethod
    def usual(argument: Any) -> Any:
        """Success, whatever was asked."""
        match argument:
            case acts.ProveReports():
                return acts.Proven(keys=tuple(report.key for report in argument.reports))
            case acts.QuarantineNode():
                return acts.Quarantined(epoch=1, was_unschedulable=False, at=NOW)
            case acts.GiveBackNode():
                return acts.GivenBack(changed=True, unschedulable=False)
            case acts.PreserveEvidence():
                return acts.Evidence(kept=("kernel lines",))
            case gang.FindJobs():
                return gang.JobsOnNode(jobs=(gang.JobOnNode(job="default/Job/train", declared=True),), jobs_total=1)
            case PriceDisruption():
                job = JobPrice(job="default/Job/train", pods=1, accelerators=16, declared=True, step=900, saved_at=NOW)
                return Price(at=NOW + timedelta(minutes=12), jobs=(job,), jobs_total=1, pods=1, group="trn1", others=5)
            case gang.JoinGang(member=member):
                return gang.GangState(job="default/Job/train", stage=gang.GangStage.RELEASED, members=(member.key,))
            case gang.LookAtGang():
                return gang.GangLook(alive=True, explanation="it runs")
            case gang.TellGang():
                return gang.ToldGang()
            case gang.RequestGangCheckpoint(request=request):
                return acts.JobCheckpoint(
                    job=request.job, status=acts.CheckpointStatus.SAVED, step=1000, uri="s3://b/1000", saved_at=NOW
                )
            case gang.FollowJobs():
                return gang.JobsFollowed()
            case gang.WriteReceipts():
                return gang.Receipts()
            case acts.RequestCheckpoints():
                return acts.Checkpoints()
            case acts.DrainNode():
                return acts.Drained(evicted=3)
            case acts.SurveyGroup():
                return acts.GroupSurvey(group="trn1", desired=6, instances=("i-0123456789abcdef0",))
            case acts.RaiseSpare():
                return acts.SpareRaised(instance_id="i-0123456789abcdef0", at=NOW)
            case acts.MendMachine():
                return acts.Mended(whole=True, boot_id="boot-2", explanation="It is whole again.")
            case acts.MarkUnhealthy():
                return acts.MarkedUnhealthy(instance_id="i-0123456789abcdef0", at=NOW)
            case acts.AwaitReplacement():
                return acts.Replacement(
                    instance_id="i-0fedcba9876543210",
                    node="node-2",
                    node_uid="uid-2",
                    zone="us-west-2a",
                    instance_type="trn1.32xlarge",
                )
            case acts.VerifyReplacement():
                return acts.Verified(checks=("16 devices",), ready_since=NOW)
            case acts.CloseIncident():
                return acts.Closed(instance_state="terminated", node_gone=True)
            case acts.WriteRecord():
                return acts.Recorded(uris=("file:///record.json",))
            case _:
                return PermitAnswer(token="t", granted=True)


WORLDS: dict[str, World] = {}
"""By workflow id: one worker serves all tests of the session."""

_ARGUMENTS: dict[ActivityName, type] = {
    ActivityName.IDENTIFY_NODE: acts.IdentifyNode,
    ActivityName.PROVE_REPORTS: acts.ProveReports,
    ActivityName.QUARANTINE_NODE: acts.QuarantineNode,
    ActivityName.GIVE_BACK_NODE: acts.GiveBackNode,
    ActivityName.PRESERVE_EVIDENCE: acts.PreserveEvidence,
    ActivityName.FIND_JOBS: gang.FindJobs,
    ActivityName.PRICE_DISRUPTION: PriceDisruption,
    ActivityName.JOIN_GANG: gang.JoinGang,
    ActivityName.AWAIT_GANG: gang.JoinGang,
    ActivityName.LEAVE_GANG: gang.LeaveGang,
    ActivityName.LOOK_AT_GANG: gang.LookAtGang,
    ActivityName.TELL_GANG: gang.TellGang,
    ActivityName.REQUEST_GANG_CHECKPOINT: gang.RequestGangCheckpoint,
    ActivityName.FOLLOW_JOBS: gang.FollowJobs,
    ActivityName.WRITE_RECEIPTS: gang.WriteReceipts,
    ActivityName.REQUEST_CHECKPOINTS: acts.RequestCheckpoints,
    ActivityName.DRAIN_NODE: acts.DrainNode,
    ActivityName.SURVEY_GROUP: acts.SurveyGroup,
    ActivityName.RAISE_SPARE: acts.RaiseSpare,
    ActivityName.LOWER_SPARE: acts.RaiseSpare,
    ActivityName.REBOOT_MACHINE: acts.MendMachine,
    ActivityName.RESET_DEVICES: acts.MendMachine,
    ActivityName.MARK_INSTANCE_UNHEALTHY: acts.MarkUnhealthy,
    ActivityName.AWAIT_REPLACEMENT: acts.AwaitReplacement,
    ActivityName.VERIFY_REPLACEMENT: acts.VerifyReplacement,
    ActivityName.CLOSE_INCIDENT: acts.CloseIncident,
    ActivityName.WRITE_RECORD: acts.WriteRecord,
    ActivityName.ASK_PERMIT: AskPermit,
    ActivityName.RETURN_PERMITS: ReturnPermits,
}


def scripted_acts() -> list[Any]:
    """The acts to register with a worker; each plays the world of the incident that asks."""
    return [_act(name, kind) for name, kind in _ARGUMENTS.items()]


def _act(name: ActivityName, kind: type) -> Callable[[Any], Awaitable[Any]]:
    async def act(argument: Any) -> Any:
        world = WORLDS[str(activity.info().workflow_id)]
        world.calls.append((name, argument))
        answer = world.scripts.get(name, lambda argument: world.answer(name, argument))(argument)
        return await answer if asyncio.iscoroutine(answer) else answer

    act.__annotations__["argument"] = kind
    return activity.defn(name=name)(act)


@dataclass
class Play:
    """One incident on a real Temporal server."""

    client: Client
    task_queue: str
    world: World

    async def start(self, *findings: FaultReport, drill: bool = False) -> "Incident":
        """Start it as the detector does, with its first finding; further ones join."""
        node = f"node-{uuid.uuid4().hex[:8]}"
        findings = tuple(f.model_copy(update={"node": node}) for f in findings or (finding(),))
        request = RemediationRequest(cluster="test", node=node, instance_id=findings[0].instance_id, drill=drill)
        workflow_id = incident_id("test", node, request.instance_id, drill=drill)
        WORLDS[workflow_id] = self.world
        handle = await self.client.start_workflow(
            REMEDIATE_NODE,
            request,
            id=workflow_id,
            task_queue=self.task_queue,
            start_signal=REPORT_FAULT,
            start_signal_args=[findings[0]],
            result_type=IncidentReport,
        )
        incident = Incident(handle, node)
        for further in findings[1:]:
            await incident.report(further)
        return incident


@dataclass
class Incident:
    """A running incident, as an operator sees it."""

    handle: WorkflowHandle[Any, IncidentReport]
    node: str

    async def result(self) -> IncidentReport:
        """The closing report."""
        return await self.handle.result()

    async def now(self) -> IncidentReport:
        """The report as of now."""
        return await self.handle.query(INCIDENT_QUERY, result_type=IncidentReport)

    async def report(self, further: FaultReport) -> None:
        """Another finding of the same node."""
        await self.handle.signal(REPORT_FAULT, further.model_copy(update={"node": self.node}))

    async def press(self, name: OverrideName, by: str = "ada", reason: str = "told so", **more: str) -> str:
        """Press an override and read the answer."""
        answer: str = await self.handle.execute_update(name, {"by": by, "reason": reason, **more}, result_type=str)
        return answer

    async def until(self, wanted: Callable[[IncidentReport], bool], patience_s: float = 20.0) -> IncidentReport:
        """Look until the report is as wanted."""
        async with asyncio.timeout(patience_s):
            while not wanted(report := await self.now()):
                await asyncio.sleep(0.05)
        return report

    async def until_phase(self, phase: Phase) -> IncidentReport:
        """Look until it has entered a phase."""
        return await self.until(lambda report: report.phase is phase)


def statuses(report: IncidentReport) -> Sequence[tuple[str, str]]:
    """Steps and how they stand."""
    return [(str(step.step), str(step.status)) for step in report.steps]
