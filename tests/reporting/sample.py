"""Closed incidents as they look in practice, for the pages."""

from datetime import UTC, datetime, timedelta
from typing import Any

from contract.incident import IncidentReport, OverrideRecord, SavedWork, StepRecord, StepStatus
from contract.names import Outcome, OverrideName, Phase, Step
from contract.plan import Plan, Rung
from contract.policy import Mode
from contract.trail import ActRecord, ExternalWrite, FailedAttempt, System, Trail
from tests.runbook.world import finding, identity

BEGAN = datetime(2026, 12, 1, 3, 12, 4, tzinfo=UTC)
NODE = "ip-10-0-17-203.us-west-2.compute.internal"
_STEPS = (
    (Step.IDENTIFY, 0, 2, "It is what the report says: i-0123456789abcdef0, of this boot."),
    (Step.QUARANTINE, 2, 3, "Closed to new work; it was open before."),
    (Step.SETTLE, 3, 33, "3 findings within 30 s."),
    (Step.ASSESS, 33, 33, "replace: hardware fault that outlives a reboot."),
    (Step.PRESERVE, 33, 38, "Kept kernel-lines.txt, node.json, console.txt."),
    (Step.DISRUPT, 38, 65, "The fleet can spare it: 1 of 2 disrupted nodes of trn1."),
    (Step.CHECKPOINT, 65, 191, "2 jobs: 1 saved, 1 named."),
    (Step.DRAIN, 191, 388, "9 pods evicted, none left."),
    (Step.REPLACE, 388, 391, "The instance is marked unhealthy."),
    (Step.AWAIT_REPLACEMENT, 391, 655, "i-0fedcba9876543210 came as ip-10-0-17-9.us-west-2.compute.internal."),
    (Step.VERIFY, 655, 745, "Proven whole: 16 devices, driver 2.19, a probe that ran."),
    (Step.CLOSE, 745, 812, "2 of 2 jobs running again, past the checkpoint; the old machine is gone."),
)


def closed(**changes: Any) -> IncidentReport:
    """An incident that ended well, with a hand in it and a step that failed once."""
    usual: dict[str, Any] = {
        "incident_id": f"remediate-prod-{NODE}-i-0123456789abcdef0",
        "run_id": "0192f3aa-1c7e-7f5a-9a40-4d9d2a6e8b11",
        "cluster": "prod",
        "node": NODE,
        "instance_id": "i-0123456789abcdef0",
        "phase": Phase.CLOSED,
        "outcome": Outcome.REPLACED,
        "summary": "i-0123456789abcdef0 is replaced by i-0fedcba9876543210, which is proven whole.",
        "opened_at": BEGAN,
        "closed_at": BEGAN + timedelta(seconds=812),
        "mode": Mode.ACT,
        "policy_version": "3f9c2ab1",
        "identity": identity(node=NODE, cluster="prod"),
        "findings": (
            finding(
                node=NODE,
                cluster="prod",
                first_seen=BEGAN,
                last_seen=BEGAN + timedelta(seconds=22),
                count=3,
                context=("neuron: nd3: nc1: HBM scrub started", "neuron: nd3: HBM bank 2 row 0x1f3a: ECC error"),
            ),
        ),
        "findings_total": 3,
        "plan": Plan(
            rung=Rung.REPLACE,
            reasons=("Uncorrectable HBM error: a hardware fault that outlives a reboot.", "Its data is suspect."),
        ),
        "steps": tuple(
            StepRecord(
                step=step,
                status=StepStatus.DONE,
                started_at=BEGAN + timedelta(seconds=begin),
                ended_at=BEGAN + timedelta(seconds=end),
                summary=summary,
            )
            for step, begin, end, summary in _STEPS
        ),
        "overrides": (
            OverrideRecord(
                name=OverrideName.EXTEND_DEADLINE,
                by="ada",
                reason="the checkpoint is large",
                at=BEGAN + timedelta(seconds=150),
                accepted=True,
                answer="`extend_deadline` starts what runs anew, with what was left and as much more as you say.",
            ),
            OverrideRecord(
                name=OverrideName.RELEASE,
                by="grace",
                reason="false alarm?",
                at=BEGAN + timedelta(seconds=500),
                accepted=False,
                answer="`release` is not possible at await_replacement: the instance is marked unhealthy.",
            ),
        ),
        "facts": {
            "checkpoints": "2 jobs: 1 saved, 1 named.",
            "drained": "9 pods evicted, none left.",
            "record": "file:///var/lib/nodemend/report.json",
        },
        "saved": (
            SavedWork(
                job="train/JobSet/llama-70b",
                status="saved",
                saved_steps=412,
                saved_accelerator_seconds=93_184,
                lost_steps=0,
                how="step 81412 less step 81000, which it had before; 364 s between the two, times 256 accelerators",
            ),
            SavedWork(job="eval/Job/mmlu", status="undeclared", how="it told too little to compute what was saved"),
        ),
        "notes": ("The rehearsal of last week was of this node, too.",),
        "acts": _acts(),
        "acts_total": 3,
        "replacement_instance_id": "i-0fedcba9876543210",
        "replacement_node": "ip-10-0-17-9.us-west-2.compute.internal",
    }
    return IncidentReport(**{**usual, **changes})


def _acts() -> tuple[ActRecord, ...]:
    def wrote(second: int, verb: str, thing: str, status: int, **more: Any) -> ExternalWrite:
        system = System.AWS if ":" in verb else System.KUBERNETES
        at = BEGAN + timedelta(seconds=second)
        return ExternalWrite(at=at, system=system, verb=verb, object=thing, status=status, **more)

    node = f"/api/v1/nodes/{NODE}"
    pod = "/api/v1/namespaces/train/pods/llama-70b-workers-0-17/eviction"
    quarantine = Trail(
        writes=(wrote(3, "patch", node, 200, version="48121", request_id="5f0e2f8c-1b5c-4e7e-9a3c-0d6a1f2b3c4d"),),
        writes_total=1,
    )
    drain = Trail(
        attempts=2,
        failed=(
            FailedAttempt(
                number=1,
                at=BEGAN + timedelta(seconds=230),
                error="The Kubernetes API cannot be reached (MaxRetryError). It is tried again.",
            ),
        ),
        failed_total=1,
        writes=(
            wrote(195, "create", pod, 429, request_id="8d0b6a52-6c0f-4b0f-8c55-4a2f0e9a7d10", times=14),
            wrote(371, "create", pod, 201, request_id="0c9a1e77-35d1-4b93-9c9f-7f3a4f3d2e21"),
        ),
        writes_total=23,
    )
    replace = Trail(
        writes=(
            wrote(
                390,
                "autoscaling:SetInstanceHealth",
                "InstanceId=i-0123456789abcdef0",
                200,
                request_id="f3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9",
            ),
        ),
        writes_total=1,
    )
    return (
        ActRecord(act="quarantine_node", step=Step.QUARANTINE, at=BEGAN + timedelta(seconds=3), trail=quarantine),
        ActRecord(act="drain_node", step=Step.DRAIN, at=BEGAN + timedelta(seconds=388), trail=drain),
        ActRecord(act="mark_instance_unhealthy", step=Step.REPLACE, at=BEGAN + timedelta(seconds=391), trail=replace),
    )
