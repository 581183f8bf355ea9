"""Results in words: what a person reads in steps, facts and the closing report. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from contract import acts, price
from contract.fault import SERIAL_FIELDS, FaultReport
from contract.gang import FollowedJob, JobsOnNode
from contract.gates import GateRecord
from contract.names import Outcome, OverrideName, Step
from contract.override import Override
from contract.plan import Plan, Rung
from contract.policy import Mode
from contract.replacement import Answer
from contract.words import counted
from workflows.incident_state import Incident
from workflows.needs_human import way_on
from workflows.override_table import SKIPPABLE

_PROOFS: Final = {
    "file": ", its manifest read in the pod",
    "s3": ", its manifest read from S3",
    "word": ", by the pod's own word",
}


def replaced(incident: Incident) -> tuple[Outcome, str]:
    """How a whole incident ended."""
    identity, skipped_by = incident.identity, incident.verification_skipped
    assert identity is not None
    done = (
        f"{identity.instance_id} (Node {identity.node}) was replaced by {incident.replacement_instance_id} "
        f"(Node {incident.replacement_node})"
    )
    if skipped_by:
        return Outcome.REPLACED_UNVERIFIED, f"{done}, which nobody has proven whole: {skipped_by.by} skipped that."
    return Outcome.REPLACED, f"{done}, and the replacement was proven whole."


def skipped(step: Step, override: Override) -> str:
    """A step that a human had left out."""
    return f"Skipped by {override.by}: {override.reason}. The incident {SKIPPABLE[step]}."


def held(incident: Incident) -> str:
    """Who stopped it, why, and how it goes on."""
    holds = [one for one in incident.overrides if one.name is OverrideName.HOLD and one.accepted]
    by = f"{holds[-1].by}: {holds[-1].reason.rstrip('.')}" if holds else "a human"
    return f"Held by {by}. Nothing goes on until `resume`. {way_on(OverrideName.RESUME, incident.request.node)}"


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
    hurry = f" {decision.fuse}: the waits are cut to be done before." if decision.fuse else ""
    return f"{decision.rung.value.capitalize()}: {' '.join(decision.reasons)}{hurry}"


def quarantined(done: acts.Quarantined) -> str:
    """What closing the node found."""
    before = "; somebody had closed it before" if done.was_unschedulable else ""
    return f"Cordoned and tainted (claim {done.epoch}){before}."


def settled(count: int) -> str:
    """How many findings gathered."""
    return "One finding." if count == 1 else f"{counted(count, 'finding')} gathered."


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
            kept = f"; {job.kept}" if job.kept else ""
            return (
                f"not asked; last to be believed is step {job.step} at {job.uri} ({_time(job.saved_at)}){later}{kept}"
            )
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
    return f"{counted(len(jobs), 'job')}: {', '.join(counts)}."


def gate(record: GateRecord, decision: Plan, node: str) -> str:
    """What is to be approved, by how many, and at what price."""
    count = ""
    if record.approvals > 1:
        given = f" ({', '.join(record.approved_by)})" if record.approved_by else ""
        count = f" {len(record.approved_by)} of {record.approvals} approvals{given}."
    cost = f" {price.in_short(record.price)}" if record.price else ""
    asks = f"{record.why} Plan {record.plan}: {decision.rung}.{count} Press `approve`, `abort` or `release`."
    return f"{asks}{cost} {way_on(OverrideName.APPROVE, node, record.plan)}"


def voided(people: Sequence[str], before: str, after: str) -> str:
    """Approvals that count no more."""
    return (
        f"The plan changed from {before} to {after} after {' and '.join(people)} had approved: it is asked for again."
    )


def last_attempt(jobs: str) -> str:
    """What an approval before a disruption decides about where jobs would end for good."""
    return f"This is the last attempt: {jobs}." if jobs else ""


def unsaved(jobs: str) -> str:
    """What an approval decides about where work would be lost."""
    return f"Work would be lost: {jobs}. `approve` drains the node all the same."


def leave(jobs: JobsOnNode) -> str:
    """What may be disturbed."""
    if jobs.idle:
        dead = "; ".join(f"{job.job} ({job.idle})" for job in jobs.jobs)
        return f"Nobody's leave is needed: there is no work to disturb. {dead}."
    gangs = jobs.gangs
    if not gangs:
        return "The fleet can spare this node's work."
    return f"The fleet can spare {', '.join(f'{job.job} ({job.nodes} nodes)' for job in gangs)}, as a whole."


def followed(job: FollowedJob) -> str:
    """A job after its disruption, with what was saved."""
    seconds = job.saved_accelerator_seconds
    kept = f"; {counted(job.saved_steps, 'step')} saved" if job.saved_steps is not None else ""
    if seconds:
        kept += f" ({seconds:.0f} accelerator-seconds: time between the two checkpoints times accelerators)"
    lost = f", {job.lost_steps} lost" if job.lost_steps is not None else ""
    state = "past its checkpoint" if job.passed else "not seen past its checkpoint in time"
    return f"{state}: {job.explanation}{kept}{lost}"


def drained(result: acts.Drained) -> str:
    """What left and what stayed."""
    waited = f", after waiting for {', '.join(result.blocked_by)}" if result.blocked_by else ""
    told = [
        f"{counted(result.evicted, 'pod')} evicted{waited}; {counted(result.left_total, 'stays', 'stay')} by right."
    ]
    if result.deleted:
        told.append(f"Deleted after they refused to the end: {_some(result.deleted, result.deleted_total)}.")
    if result.abandoned:
        told.append(f"Left to the end of the instance: {_some(result.abandoned, result.abandoned_total)}.")
    return " ".join(told)


def obstacles(survey: acts.GroupSurvey, *, drained: bool) -> str:
    """Why giving the machine up would bring no replacement."""
    stands = "drained and quarantined" if drained else "quarantined, and its work goes on"
    return (
        f"{survey.group} would not replace the instance: {'; '.join(survey.obstacles)}. The node is {stands}. Clear "
        "the obstacle and press `resume`."
    )


def reboot_first(survey: acts.GroupSurvey) -> str:
    """Why a human is asked before a machine is given up that may not be had again."""
    why = "; ".join(one.explanation for one in survey.findings if one.answer is Answer.REBOOT_FIRST)
    return (
        f"The policy wants a reboot before a machine of {survey.group} is given up, for {why}. No rule says that a "
        "reboot mends this fault. The node is quarantined, and its work goes on. Change the policy's answer and press "
        "`resume`, or press `abort`."
    )


def known_of_group(survey: acts.GroupSurvey) -> str:
    """What was found and passed over."""
    passed = [one.explanation for one in survey.findings if one.explanation not in survey.obstacles]
    return f"{survey.group}: {'; '.join(passed)}." if passed else ""


def spare(raised: acts.SpareRaised) -> str:
    """A spare beside the failing machine."""
    if raised.already:
        return f"{raised.instance_id} was {raised.already} already"
    return f"{raised.instance_id} is on standby, and its group launches another beside it"


def lowered(result: acts.SpareRaised) -> str:
    """A machine that was given back beside its spare."""
    if result.already:
        return f"{result.instance_id} is {result.already}: it was not put back into service"
    return f"{result.instance_id} is in service again beside its spare: the group wants one more than before"


def mended(result: acts.Mended, *, came_back: bool) -> str:
    """What a reset or a reboot came to."""
    if came_back:
        return f"{result.explanation} But the fault came back in the new boot."
    return result.explanation


def repaired(incident: Incident, rung: Rung) -> str:
    """How an incident ended without another machine."""
    assert incident.identity is not None
    how = "a reboot" if rung is Rung.REBOOT else "a reset of its devices"
    return f"{incident.identity.node} is whole again after {how}, and open to work as it was before."


def serials(findings: Sequence[FaultReport]) -> tuple[str, ...]:
    """Serial numbers of the devices that the findings name."""
    named = {value for finding in findings for key, value in finding.fields.items() if key in SERIAL_FIELDS and value}
    return tuple(sorted(named))


def marked(result: acts.MarkedUnhealthy) -> str:
    """The irreversible call."""
    if result.already:
        return f"{result.instance_id} was {result.already} already; no call was made."
    told = " EC2 was told that it is bad." if result.reported else ""
    allowed = f" Policy {result.policy_version} allowed it." if result.policy_version else ""
    return f"{result.instance_id} is marked unhealthy: its group replaces it.{told}{allowed}"


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
    mends = incident.plan and incident.plan.rung in (Rung.RESET_DEVICE, Rung.REBOOT)
    then = f"tried a {incident.plan.rung}" if incident.plan and mends else f"had {identity.instance_id} replaced"
    return f"Shadow mode: nothing was touched. Would have drained {identity.node} and {then}."


def given_back(result: acts.GivenBack, outcome: Outcome) -> str:
    """How the node was left."""
    if not result.changed:
        return "nothing of ours was on the node any more"
    state = "closed, as it was before us" if result.unschedulable else "open to the scheduler"
    return f"our marks are removed, the node is {state}" + (" (veto)" if outcome is Outcome.VETOED else "")


def _step(job: acts.JobCheckpoint) -> str:
    return f"step {job.step} at {job.uri} ({_time(job.saved_at)})" if job.step is not None else "not known"


def _some(listed: tuple[str, ...], total: int) -> str:
    more = f" and {total - len(listed)} more" if total > len(listed) else ""
    return ", ".join(listed) + more


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else "time unknown"
