"""Asking the jobs on a node for a checkpoint before their pods are evicted, or naming one that can be believed.

The protocol (``docs/checkpointing.md``): the pod names a command; Nodemend appends ``save NONCE`` or ``list`` and runs
it in the pod; the answer is JSON, one checkpoint a line: ``{"nonce", "step", "uri", "time"}``.

A fault can spoil what its device computed. Then a job that holds such a device here is not asked: a new checkpoint
would carry the damage, and the newest from before the first sign is named instead.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from temporalio import activity

from activities.claim import annotations, mark_disrupting
from activities.cluster import Cluster, Json
from activities.pod_exec import Answer, run_in_pod
from activities.pod_filters import controller_of, pod_name
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from contract.acts import LIST_MAX, Checkpoints, CheckpointStatus, JobCheckpoint, RequestCheckpoints
from contract.fault import DataTrust
from contract.names import CHECKPOINT_ANNOTATION, CHECKPOINT_COMMAND_ANNOTATION, ActivityName
from contract.permit import PermitRequest

_EXEC: Final = "exec"
_COMMAND: Final = TypeAdapter(list[str])
_ASK_AGAIN_S: Final = 5.0
_LIST_TIMEOUT_S: Final = 30.0


class _Checkpoint(BaseModel):
    """One line of an answer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nonce: str = ""
    step: int = Field(ge=0)
    uri: str = Field(min_length=1)
    time: AwareDatetime


@dataclass(frozen=True)
class _Job:
    """One job's pods on the node."""

    name: str
    pods: tuple[Json, ...]

    @property
    def speaker(self) -> Json:
        """The pod that is asked: a running one, the first by name."""
        running = [pod for pod in self.pods if pod.get("status", {}).get("phase") == "Running"]
        return min(running or self.pods, key=pod_name)


class CheckpointActivity:
    """The act ``request_checkpoints``."""

    def __init__(self, cluster: Cluster, spend: Callable[[PermitRequest], None]) -> None:
        """``spend`` raises when FleetBudget, as it is now, does not know the permit."""
        self._cluster = cluster
        self._spend = spend

    @activity.defn(name=ActivityName.REQUEST_CHECKPOINTS, no_thread_cancel_exception=True)
    def request_checkpoints(self, argument: RequestCheckpoints) -> Checkpoints:
        """Ask each job on the node once, or name its last checkpoint that can be believed.

        A job that gives no valid answer in time is reported as such and does not stop the drain: its hardware fails.

        Raises:
            ApplicationError: what ``claimed_node`` says, or ``PermitQueued``.
        """
        if argument.permit:
            # The first act that disturbs work: since the permit was granted, FleetBudget may have been terminated.
            self._spend(argument.permit)
        mark_disrupting(self._cluster, argument.target)
        jobs = group_by_job(self._cluster.pods_on(argument.target.identity.node))
        results: list[JobCheckpoint] = []
        for number, job in enumerate(jobs, start=1):
            go_on()
            report_progress({"job": job.name, "number": number, "of": len(jobs)})
            results.append(self._see_to(job, argument))
        order = list(CheckpointStatus)
        results.sort(key=lambda result: order.index(result.status))
        return Checkpoints(jobs=tuple(results[:LIST_MAX]), jobs_total=len(results))

    def _see_to(self, job: _Job, argument: RequestCheckpoints) -> JobCheckpoint:
        pod = job.speaker
        if CHECKPOINT_ANNOTATION not in annotations(pod):
            return JobCheckpoint(job=job.name, pod=pod_name(pod), status=CheckpointStatus.UNDECLARED)
        try:
            command = declared_command(pod)
        except ValueError as error:
            return _failed(job, str(error))
        if argument.data is DataTrust.SUSPECT and any(holds(p, argument.device_resource) for p in job.pods):
            return self._name(job, command, argument.evidence_since)
        return self._ask(job, command, argument)

    def _name(self, job: _Job, command: list[str], evidence_since: datetime | None) -> JobCheckpoint:
        answer = self._run(job, [*command, "list"], _LIST_TIMEOUT_S)
        known, problem = _read(answer)
        if problem:
            return _failed(job, f"its checkpoints could not be listed ({problem}); none was asked for, data is suspect")
        believed = [item for item in known if evidence_since is None or item.time < evidence_since]
        if not believed:
            return _failed(job, "it has no checkpoint from before the fault; none was asked for, data is suspect")
        last = max(believed, key=lambda item: item.time)
        return JobCheckpoint(
            job=job.name,
            pod=pod_name(job.speaker),
            status=CheckpointStatus.NAMED,
            step=last.step,
            uri=last.uri,
            saved_at=last.time,
            suspect=len(known) - len(believed),
            explanation="what the failing device computed is not to be believed",
        )

    def _ask(self, job: _Job, command: list[str], argument: RequestCheckpoints) -> JobCheckpoint:
        end = deadline(argument.deadline)
        before, _ = _read(self._run(job, [*command, "list"], _LIST_TIMEOUT_S))
        # An earlier try of this act may have been answered and then lost its worker.
        saved = next((item for item in before if item.nonce == argument.nonce), None)
        problem = "it was not asked in time"
        newest = max((item.step for item in before if item.nonce != argument.nonce), default=0)
        while saved is None and not overdue(end):
            go_on()
            left = max(1.0, (end - datetime.now(end.tzinfo)).total_seconds())
            saved, problem = _verified(self._run(job, [*command, "save", argument.nonce], left), argument.nonce, newest)
            if saved is None:
                report_progress({"job": job.name, "problem": problem})
                pause(min(_ASK_AGAIN_S, left))
        if saved is None:
            return _failed(job, f"{problem}; its last known checkpoint is step {newest}" if before else problem)
        return JobCheckpoint(
            job=job.name,
            pod=pod_name(job.speaker),
            status=CheckpointStatus.SAVED,
            step=saved.step,
            uri=saved.uri,
            saved_at=saved.time,
        )

    def _run(self, job: _Job, command: list[str], timeout_s: float) -> Answer:
        metadata = job.speaker["metadata"]
        return run_in_pod(self._cluster, metadata["namespace"], metadata["name"], command, timeout_s)


def group_by_job(pods: Iterable[Json]) -> list[_Job]:
    """The jobs on a node: pods that work, by their controller. DaemonSets and finished pods are no jobs."""
    found: dict[tuple[str, str], list[Json]] = {}
    for pod in pods:
        owner = controller_of(pod)
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
            continue
        if owner and owner["kind"] in ("DaemonSet", "Node"):
            continue
        what = f"{owner['kind']}/{owner['name']}" if owner else f"Pod/{pod['metadata']['name']}"
        found.setdefault((pod["metadata"]["namespace"], what), []).append(pod)
    return [_Job(f"{namespace}/{what}", tuple(members)) for (namespace, what), members in sorted(found.items())]


def holds(pod: Json, resource: str | None) -> bool:
    """Whether a pod holds a device of the kind; of any kind where the finding names none."""
    for container in pod["spec"].get("containers", []):
        limits: dict[str, Any] = container.get("resources", {}).get("limits", {})
        if resource in limits or (resource is None and any("/" in name for name in limits)):
            return True
    return False


def declared_command(pod: Json) -> list[str]:
    """The command that a pod declares.

    Raises:
        ValueError: the declaration is not valid; the message names pod, annotation, value and remedy.
    """
    declared = annotations(pod)
    if declared[CHECKPOINT_ANNOTATION] != _EXEC:
        raise ValueError(
            f"{pod_name(pod)} has {CHECKPOINT_ANNOTATION}={declared[CHECKPOINT_ANNOTATION]!r}: only {_EXEC!r} is known"
        )
    value = declared.get(CHECKPOINT_COMMAND_ANNOTATION, "")
    try:
        command = _COMMAND.validate_json(value)
    except ValidationError:
        command = []
    if not command:
        raise ValueError(
            f"{pod_name(pod)} has {CHECKPOINT_COMMAND_ANNOTATION}={value!r}: write a JSON array of strings, for "
            'example ["python", "/app/checkpoint.py"]'
        )
    return command


def _verified(answer: Answer, nonce: str, newest: int) -> tuple[_Checkpoint | None, str]:
    """The checkpoint of an answer that proves to be ours and no older than what was there."""
    found, problem = _read(answer)
    if problem or not found:
        return None, problem or "it printed no checkpoint"
    last = found[-1]
    if last.nonce != nonce:
        return None, f"its answer carries the nonce {last.nonce!r} and not the one it was given"
    if last.step < newest:
        return None, f"its answer is step {last.step}, older than step {newest} which it had before"
    return last, ""


def _read(answer: Answer) -> tuple[list[_Checkpoint], str]:
    """Checkpoints in an answer, and what is wrong with it. Other lines are the program's own output."""
    if not answer.ok:
        return [], answer.problem
    found = []
    for line in answer.output.splitlines():
        if not line.strip().startswith("{"):
            continue
        try:
            found.append(_Checkpoint.model_validate(json.loads(line)))
        except (ValidationError, ValueError) as error:
            return found, f"it printed {line.strip()[:120]!r}, which is no checkpoint ({type(error).__name__})"
    return found, ""


def _failed(job: _Job, why: str) -> JobCheckpoint:
    return JobCheckpoint(job=job.name, pod=pod_name(job.speaker), status=CheckpointStatus.FAILED, explanation=why[:500])
