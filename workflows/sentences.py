"""Results in words: what a person reads in steps, facts and the closing report. Pure."""

from datetime import datetime

from contract import acts
from contract.names import Outcome
from contract.plan import Plan, Rung
from contract.policy import Mode
from workflows.incident_state import Incident


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
            return f"saved step {job.step} at {job.uri} ({_time(job.saved_at)})"
        case acts.CheckpointStatus.NAMED:
            later = f"; {job.suspect} later ones are suspect" if job.suspect else ""
            return f"not asked; last to be believed is step {job.step} at {job.uri} ({_time(job.saved_at)}){later}"
        case acts.CheckpointStatus.UNDECLARED:
            return "declares no checkpoint"
        case acts.CheckpointStatus.FAILED:
            return f"not saved: {job.explanation}"


def checkpoints(result: acts.Checkpoints) -> str:
    """All jobs' checkpoints, counted."""
    if not result.jobs_total:
        return "No job on the node."
    counts = [
        f"{sum(job.status is status for job in result.jobs)} {status}"
        for status in acts.CheckpointStatus
        if any(job.status is status for job in result.jobs)
    ]
    return f"{result.jobs_total} jobs: {', '.join(counts)}."


def drained(result: acts.Drained) -> str:
    """What left and what stayed."""
    waited = f", after waiting for {', '.join(result.blocked_by)}" if result.blocked_by else ""
    told = [f"{result.evicted} pods evicted{waited}; {result.left_total} stay by right."]
    if result.deleted:
        told.append(f"Deleted after they refused to the end: {_some(result.deleted, result.deleted_total)}.")
    if result.abandoned:
        told.append(f"Left to the end of the instance: {_some(result.abandoned, result.abandoned_total)}.")
    return " ".join(told)


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


def _some(listed: tuple[str, ...], total: int) -> str:
    more = f" and {total - len(listed)} more" if total > len(listed) else ""
    return ", ".join(listed) + more


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC") if moment else "time unknown"
