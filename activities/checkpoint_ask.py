"""One job's checkpoint, from its declaration to an answer that is verified, or to a sentence why there is none.

A fault can spoil what its device computed. Then a job that holds such a device on the node is not asked: a new
checkpoint would carry the damage, and the newest from before the first sign is named instead.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from activities.checkpoint_declared import CheckpointMode, Declaration, declaration_of, is_declared
from activities.checkpoint_manifest import Known, refused
from activities.checkpoint_talk import Talk
from activities.claim import annotations, labels
from activities.cluster import Cluster, Json
from activities.patience import patience
from activities.pod_filters import pod_name
from activities.waiting import go_on, pause, report_progress
from contract.acts import CheckpointStatus, JobCheckpoint
from contract.fault import DataTrust
from contract.policy import CheckpointPolicy, Otherwise

_ASK_AGAIN_S: Final = 5.0
_RANK: Final = "batch.kubernetes.io/job-completion-index"
_WORDS_MAX: Final = 500


@dataclass(frozen=True)
class AskedJob:
    """A job and those of its pods that are known."""

    name: str
    pods: tuple[Json, ...]


@dataclass(frozen=True)
class Terms:
    """What one request stands on."""

    nonce: str
    data: DataTrust
    device_resource: str | None
    evidence_since: datetime | None
    asked_at: datetime
    """When the act was first scheduled: deadlines are counted from there, whatever is retried."""
    usual: timedelta
    rules: CheckpointPolicy
    failing: frozenset[str]
    """Names of the nodes that fail."""
    ranks_alive: bool = True
    """Whether ranks on those can answer."""
    extended: timedelta = timedelta(0)
    """What humans added to the deadlines, which is in them."""


@dataclass
class _Result:
    """What is gathered about one job on the way."""

    job: AskedJob
    pod: Json
    declared: Declaration | None = None
    known: Known = field(default_factory=Known)
    asks: int = 0

    def make(self, status: CheckpointStatus, why: str = "", **more: Any) -> JobCheckpoint:
        before = self.known.newest
        return JobCheckpoint(
            job=self.job.name,
            pod=pod_name(self.pod),
            status=status,
            explanation=why[:_WORDS_MAX],
            accelerators=sum(accelerators(pod) for pod in self.job.pods),
            **{
                "mode": self.declared.mode.value if self.declared else "",
                "otherwise": self.declared.fallback if self.declared else Otherwise.EVICT,
                "asks": self.asks,
                "proof": self.known.proof.value if before else "",
                "previous_step": before.step if before else None,
                "previous_at": before.time if before else None,
                "stands_at": self.known.standing.at if self.known.standing else None,
                **more,
            },
        )


class Asking:
    """Sees to one job at a time; safe to use from several threads."""

    def __init__(self, cluster: Cluster, talk: Talk) -> None:
        self._cluster = cluster
        self._talk = talk

    def see_to(self, job: AskedJob, terms: Terms) -> JobCheckpoint:
        """Ask the job, name its last checkpoint that can be believed, or say why neither is to be had."""
        declaring = [pod for pod in job.pods if is_declared(pod)]
        speaker = speaker_of(declaring, terms)
        result = _Result(job, speaker or min(declaring or job.pods, key=pod_name))
        if not declaring:
            return result.make(CheckpointStatus.UNDECLARED)
        try:
            result.declared = declaration_of(result.pod)
        except ValueError as error:
            why = f"{error}. The job cannot be asked to save before its node is repaired. Correct the pod template."
            self._tell(result.pod, "CheckpointDeclarationMalformed", why, "declaration")
            return result.make(CheckpointStatus.FAILED, str(error), otherwise=terms.rules.malformed)
        result.known = self._known(result, running=speaker is not None)
        if terms.data is DataTrust.SUSPECT and any(
            holds(pod, terms.device_resource) for pod in job.pods if pod["spec"].get("nodeName") in terms.failing
        ):
            return self._named(result, speaker, terms.evidence_since)
        if speaker is None:
            return result.make(CheckpointStatus.DEAD, "none of its pods runs and can answer", **_newest(result.known))
        if why := _hangs(result.known, terms.rules):
            return result.make(CheckpointStatus.DEAD, why, **_newest(result.known))
        match result.declared.mode:
            case CheckpointMode.OBSERVE:
                problem = result.known.problem if result.known.newest is None else ""
                status = CheckpointStatus.FAILED if result.known.newest is None else CheckpointStatus.OBSERVED
                return result.make(status, problem or _none_yet(status), **_newest(result.known))
            case CheckpointMode.SIGTERM:
                return self._at_end(result)
            case _:
                return self._ask(result, terms)

    def why_hung(self, job: AskedJob, terms: Terms) -> str:
        """Why a job has no work to disturb though its pods run; empty where it has, or where nobody knows."""
        speaker = speaker_of([pod for pod in job.pods if is_declared(pod)], terms)
        if speaker is None:
            return ""
        try:
            declared = declaration_of(speaker)
        except ValueError:
            return ""
        tells = declared.command or declared.port
        return _hangs(self._talk.told(speaker, declared), terms.rules) if tells else ""

    def _known(self, result: _Result, *, running: bool) -> Known:
        assert result.declared is not None
        if not running and not result.declared.manifests.startswith("s3://"):
            return Known()
        return self._talk.known(result.pod, result.declared)

    def _ask(self, result: _Result, terms: Terms) -> JobCheckpoint:
        declared, before = result.declared, result.known
        assert declared is not None
        # An earlier try of this act may have been answered and then lost its worker.
        saved = next((item for item in before.checkpoints if item.nonce == terms.nonce), None)
        result.known = Known(
            tuple(item for item in before.checkpoints if item.nonce != terms.nonce), before.standing, proof=before.proof
        )
        proof = before.proof
        newest = max((item.step for item in result.known.checkpoints), default=0)
        most, why = patience(
            terms.usual,
            terms.rules,
            ranks_alive=terms.ranks_alive,
            unsaved=_unsaved(result),
            declared=declared.timeout,
            extended=terms.extended,
        )
        end, problem = terms.asked_at + most, "it was not asked in time"
        while saved is None and (left := (end - datetime.now(UTC)).total_seconds()) > 0:
            go_on()
            result.asks += 1
            answer = self._talk.save(result.pod, declared, terms.nonce, max(1.0, left))
            saved = answer.checkpoints[-1] if answer.checkpoints and not answer.problem else None
            problem = answer.problem or "it printed no checkpoint"
            if saved:
                saved, proof, problem = self._talk.proven(result.pod, declared, saved)
                problem = problem or refused(saved, terms.nonce, newest, terms.asked_at)
            if problem or saved is None:
                saved = None
                report_progress({"job": result.job.name, "problem": problem, "until": end.isoformat(), "because": why})
                if not self._still_runs(result.pod):
                    problem = f"its pod ended while it was asked; before that: {problem}"
                    break
                pause(min(_ASK_AGAIN_S, max(0.0, (end - datetime.now(UTC)).total_seconds())))
        if saved is None:
            last = f"; its last known checkpoint is step {newest}" if result.known.checkpoints else ""
            return result.make(CheckpointStatus.FAILED, f"{problem}{last} ({_minutes(most)}: {why})")
        return result.make(
            CheckpointStatus.SAVED, step=saved.step, uri=saved.uri, saved_at=saved.time, proof=proof.value
        )

    def _still_runs(self, pod: Json) -> bool:
        now = self._cluster.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        return now is not None and now["metadata"]["uid"] == pod["metadata"]["uid"] and is_running(now)

    def _tell(self, pod: Json, reason: str, why: str, key: str) -> None:
        thing = {**pod, "apiVersion": "v1", "kind": "Pod"}
        key = f"{pod['metadata']['uid'][:8]}-checkpoint-{key}"
        self._cluster.record_event(thing, reason, why, key=key, warning=True)

    def _named(self, result: _Result, speaker: Json | None, evidence_since: datetime | None) -> JobCheckpoint:
        known = result.known
        if known.problem and not known.checkpoints:
            why = f"its checkpoints could not be listed ({known.problem}); none was asked for, data is suspect"
            return result.make(CheckpointStatus.FAILED, why)
        believed = known.before(evidence_since)
        if not believed:
            why = "it has no checkpoint from before the fault; none was asked for, data is suspect"
            return result.make(CheckpointStatus.FAILED, why, suspect=len(known.checkpoints))
        last = max(believed, key=lambda item: (item.time, item.step))
        assert result.declared is not None
        return result.make(
            CheckpointStatus.NAMED,
            "what the failing device computed is not to be believed",
            step=last.step,
            uri=last.uri,
            saved_at=last.time,
            suspect=len(known.checkpoints) - len(believed),
            kept=self._talk.keep(speaker, result.declared, last),
        )

    def _at_end(self, result: _Result) -> JobCheckpoint:
        declared = result.declared
        assert declared is not None
        needs = declared.timeout.total_seconds() if declared.timeout else 0.0
        if needs > declared.grace_s:
            why = (
                f"it declares {needs:.0f} s for saving when it is ended, and its grace period is {declared.grace_s} s: "
                "raise terminationGracePeriodSeconds"
            )
            self._tell(result.pod, "GracePeriodTooShort", f"{pod_name(result.pod)}: {why}.", "grace-period")
            return result.make(CheckpointStatus.FAILED, why, **_newest(result.known))
        why = f"it saves when it is ended, and has {declared.grace_s} s for that"
        return result.make(CheckpointStatus.AT_END, why, **_newest(result.known))


def speaker_of(declaring: list[Json], terms: Terms) -> Json | None:
    """The pod that is asked: one that runs and can answer, the lowest rank of them; survivors before the others."""
    able = [
        pod
        for pod in declaring
        if is_running(pod)
        and (terms.ranks_alive or terms.data is DataTrust.SUSPECT or pod["spec"].get("nodeName") not in terms.failing)
    ]
    return min(able, key=lambda pod: (pod["spec"].get("nodeName") in terms.failing, _rank(pod)), default=None)


def _rank(pod: Json) -> tuple[int, str]:
    text = annotations(pod).get(_RANK) or labels(pod).get(_RANK) or ""
    return int(text) if text.isdigit() else 0, pod_name(pod)


def is_running(pod: Json) -> bool:
    """Whether the pod runs and nobody has deleted it."""
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def holds(pod: Json, resource: str | None) -> bool:
    """Whether a pod holds a device of the kind; of any kind where the finding names none."""
    for container in pod["spec"].get("containers", []):
        limits: dict[str, Any] = container.get("resources", {}).get("limits", {})
        if resource in limits or (resource is None and any("/" in name for name in limits)):
            return True
    return False


def accelerators(pod: Json) -> int:
    """How many devices a pod holds: extended resources, such as ``aws.amazon.com/neuron``."""
    count = 0
    for container in pod["spec"].get("containers", []):
        for name, amount in container.get("resources", {}).get("limits", {}).items():
            if "/" in name and "hugepages" not in name and str(amount).isdigit():
                count += int(amount)
    return count


def _hangs(known: Known, rules: CheckpointPolicy) -> str:
    standing = known.standing
    if standing is None or datetime.now(UTC) - standing.time <= rules.hung_after:
        return ""
    return f"it hangs: it took step {standing.at}, its last, at {standing.time:%Y-%m-%d %H:%M:%S}"


def _newest(known: Known) -> dict[str, Any]:
    last = known.newest
    return {"step": last.step, "uri": last.uri, "saved_at": last.time} if last else {}


def _none_yet(status: CheckpointStatus) -> str:
    return "it has no manifest yet" if status is CheckpointStatus.FAILED else "never asked, as it declares"


def _unsaved(result: _Result) -> timedelta | None:
    """How long the job has saved nothing; None where nobody knows."""
    last = result.known.newest
    if last:
        return datetime.now(UTC) - last.time
    started = result.pod.get("status", {}).get("startTime")
    return datetime.now(UTC) - datetime.fromisoformat(started) if started and not result.known.problem else None


def _minutes(duration: timedelta) -> str:
    return f"waited at most {duration.total_seconds():.0f} s"
