"""Results in words: what a person reads in steps, facts and the closing report. Pure."""

from datetime import datetime
from typing import Final

from contract import acts
from contract.gang import FollowedJob, JobOnNode
from contract.names import Outcome
from contract.plan import Plan, Rung
from contract.policy import Mode
from workflows.incident_state import Incident

_PROOFS: Final = {
    "file": ", its manifest read in the pod",
    "s3": ", its manifest read from S3",
    "word": ", by the pod's own word",
}


def replaced(incident: Incident) -> str:
    """How a whole incident ended."""
    identity = incident.identity
    assert identity is not None
    return (
        f"{identity.instance_id} (Node {identity.node}) was replaced by {incident.replacement_instance_id} "
        f"(Node {incident.replacement_node}), and the replacement was proven whole."
    )


def cancelled(reason: str, *, committed: bool) -> tuple[Outcome, str]:
    """What a cancellation from outside comes to."""
    if committed:
        return (
            Outcome.REPLACED_UNVERIFIED,
            f"Cancelled ({reason}) after the instance was marked unhealthy: nobody has proven the replacement.",
        )
    return Outcome.ABORTED, f"Cancelled ({reason}): whatever was done to the node stays as it is."


def observed(plan: Plan, mode: Mode | None) -> str:
    """Why nothing was done."""
    if plan.rung is Rung.OBSERVE:
        return " ".join(plan.reasons)
    return f"The policy only observes here (mode {mode}). {' '.join(plan.reasons)}"


def plan(decision: Plan) -> str:
    """A decision with its reasons."""
    return f"{decision.rung.value.capitalize()}: {' '.join(decision.reasons)}"


def quarantined(done: acts.Quarantined) -> str:
    """What closing the node found."""
    before = "; somebody had closed it before" if done.was_unschedulable else ""
    return f"Cordoned and tainted (claim {done.epoch}){before}."


def settled(count: int) -> str:
    """How many findings gathered."""
    return "One finding." if count == 1 else f"{count} findings gathered."


def preserved(evidence: acts.Evidence) -> str:
    """What evidence there is."""
    missed = f" Could not be had: {', '.join(evidence.missed)}." if evidence.missed else ""
    return f"Kept {', '.join(evidence.kept) or 'nothing'}.{missed}"


def checkpoint(job: acts.JobCheckpoint) -> str:
    """One job's checkpoint."""
    match job.status:
        case acts.CheckpointStatus.SAVED:
            proof = _PROOFS.get(job.proof, "")
            return f"saved step {job.step} at {job.uri} ({_time(job.saved_at)}{proof})"
        case acts.CheckpointStatus.NAMED:
            later = f"; {job.suspect} later ones are suspect" if job.suspect else ""
            return f"not asked; last to be believed is step {job.step} at {job.uri} ({_time(job.saved_at)}){later}"
        case acts.CheckpointStatus.UNDECLARED:
            return "declares no checkpoint"
        case acts.CheckpointStatus.FAILED:
            return f"not saved: {job.explanation}"
        case acts.CheckpointStatus.OBSERVED:
            return f"never asked, as it declares; its newest is step {job.step} at {job.uri} ({_time(job.saved_at)})"
        case acts.CheckpointStatus.AT_END:
            return f"{job.explanation}; its newest is {_step(job)}"
        case acts.CheckpointStatus.DEAD:
            return f"nothing was asked: {job.explanation}; its newest is {_step(job)}"


def checkpoints(jobs: tuple[acts.JobCheckpoint, ...]) -> str:
    """All jobs' checkpoints, counted."""
    if not jobs:
        return "No job on the node."
    counts = [
        f"{sum(job.status is status for job in jobs)} {status}"
        for status in acts.CheckpointStatus
        if any(job.status is status for job in jobs)
    ]
    return f"{len(jobs)} jobs: {', '.join(counts)}."


def before_disruption(last: str, attempts: str) -> str:
    """What an approval before a disruption decides about."""
    why = f"This is the last attempt: {last}." if last else "The policy asks for an approval before disrupt."
    return f"{why} {attempts}." if attempts and not last else why


def unsaved(jobs: str) -> str:
    """What an approval decides about where work would be lost."""
    return f"Work would be lost: {jobs}. `approve` drains the node all the same."


def leave(gangs: tuple[JobOnNode, ...]) -> str:
    """What may be disturbed."""
    if not gangs:
        return "The fleet can spare this node's work."
    return f"The fleet can spare {', '.join(f'{job.job} ({job.nodes} nodes)' for job in gangs)}, as a whole."


def followed(job: FollowedJob) -> str:
    """A job after its disruption, with what was saved."""
    seconds = job.saved_accelerator_seconds
    kept = f"; {job.saved_steps} steps saved" if job.saved_steps is not None else ""
    if seconds:
        kept += f" ({seconds:.0f} accelerator-seconds: time between the two checkpoints times accelerators)"
    lost = f", {job.lost_steps} lost" if job.lost_steps is not None else ""
    state = "past its checkpoint" if job.passed else "not seen past its checkpoint in time"
    return f"{state}: {job.explanation}{kept}{lost}"


def drained(result: acts.Drained) -> str:
    """What left and what stayed."""
    waited = f", after waiting for {', '.join(result.blocked_by)}" if result.blocked_by else ""
    return f"{result.evicted} pods evicted{waited}; {result.left_total} stay by right."


def obstacles(survey: acts.GroupSurvey) -> str:
    """Why marking the instance would bring no replacement."""
    return (
        f"{survey.group} would not replace the instance: {'; '.join(survey.obstacles)}. The node is drained and "
        "quarantined. Clear the obstacle and press `resume`."
    )


def marked(result: acts.MarkedUnhealthy) -> str:
    """The irreversible call."""
    if result.already:
        return f"{result.instance_id} was {result.already} already; no call was made."
    return f"{result.instance_id} is marked unhealthy: its group replaces it."


def replacement(found: acts.Replacement) -> str:
    """The claimed launch."""
    return f"{found.instance_id} ({found.instance_type}, {found.zone}) is Node {found.node}."


def verified(result: acts.Verified) -> str:
    """What was proven."""
    return f"{'; '.join(result.checks)}."


def closed(result: acts.Closed) -> str:
    """The end of the old machine."""
    return f"instance {result.instance_state}, Node {'gone' if result.node_gone else 'still there'}"


def shadowed(incident: Incident) -> str:
    """What would have been done."""
    identity = incident.identity
    assert identity is not None
    return (
        f"Shadow mode: nothing was touched. Would have drained {identity.node} and had {identity.instance_id} replaced."
    )


def given_back(result: acts.GivenBack, outcome: Outcome) -> str:
    """How the node was left."""
    if not result.changed:
        return "nothing of ours was on the node any more"
    state = "closed, as it was before us" if result.unschedulable else "open to the scheduler"
    return f"our marks are removed, the node is {state}" + (" (veto)" if outcome is Outcome.VETOED else "")


def _step(job: acts.JobCheckpoint) -> str:
    return f"step {job.step} at {job.uri} ({_time(job.saved_at)})" if job.step is not None else "not known"


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else "time unknown"
