"""What a pod declares about its checkpoints: annotations in, a declaration or sentences about what is wrong out. Pure.

Four modes (``docs/checkpointing.md``): ``exec`` runs a command in the pod, ``http`` posts to a port of it, ``sigterm``
lets the job save when it is ended, ``observe`` asks nothing and reads the newest manifest.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from pydantic import TypeAdapter, ValidationError

from activities.claim import annotations
from activities.cluster import Json
from activities.pod_filters import grace_period_s, pod_name
from contract.names import (
    CHECKPOINT_ANNOTATION,
    CHECKPOINT_COMMAND_ANNOTATION,
    CHECKPOINT_CONTAINER_ANNOTATION,
    CHECKPOINT_FALLBACK_ANNOTATION,
    CHECKPOINT_MANIFESTS_ANNOTATION,
    CHECKPOINT_PATH_ANNOTATION,
    CHECKPOINT_PORT_ANNOTATION,
    CHECKPOINT_TIMEOUT_ANNOTATION,
)
from contract.policy import Otherwise

_COMMAND: Final = TypeAdapter(list[str])
_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_LONGEST: Final = timedelta(hours=24)
_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]*")
_FOLDER: Final = re.compile(r"/\S+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?")


class CheckpointMode(StrEnum):
    """How a job is asked."""

    EXEC = "exec"
    HTTP = "http"
    SIGTERM = "sigterm"
    OBSERVE = "observe"


_NEEDS: Final = {
    CheckpointMode.EXEC: CHECKPOINT_COMMAND_ANNOTATION,
    CheckpointMode.HTTP: CHECKPOINT_PORT_ANNOTATION,
    CheckpointMode.SIGTERM: CHECKPOINT_MANIFESTS_ANNOTATION,
    CheckpointMode.OBSERVE: CHECKPOINT_MANIFESTS_ANNOTATION,
}
"""What a mode cannot do without."""


@dataclass(frozen=True)
class Declaration:
    """A valid declaration."""

    mode: CheckpointMode
    command: tuple[str, ...] = ()
    container: str = ""
    """Empty for the first."""
    port: int = 0
    path: str = "/checkpoint"
    manifests: str = ""
    """Folder in the pod, or ``s3://bucket/prefix``; empty where only the pod's own word is to be had."""
    timeout: timedelta | None = None
    """How long one answer may take; None leaves it to the policy."""
    fallback: Otherwise = Otherwise.EVICT
    grace_s: int = 30


def is_declared(pod: Json) -> bool:
    """Whether a pod declares anything at all."""
    return CHECKPOINT_ANNOTATION in annotations(pod)


def declaration_of(pod: Json) -> Declaration:
    """What a pod declares.

    Raises:
        ValueError: it is not valid; the message names pod, annotation, value and remedy, for all that is wrong.
    """
    wrong: list[str] = []
    declared = annotations(pod)

    def refuse(annotation: str, remedy: str) -> None:
        wrong.append(f"{annotation}={declared.get(annotation, '')!r}: {remedy}")

    known = [mode.value for mode in CheckpointMode]
    if declared.get(CHECKPOINT_ANNOTATION) not in known:
        refuse(CHECKPOINT_ANNOTATION, f"write one of {', '.join(known)}")
        raise _malformed(pod, wrong)
    mode = CheckpointMode(declared[CHECKPOINT_ANNOTATION])
    command = _command(declared.get(CHECKPOINT_COMMAND_ANNOTATION))
    if command is None or (mode is CheckpointMode.EXEC and not command):
        refuse(
            CHECKPOINT_COMMAND_ANNOTATION,
            'write a JSON array of strings, for example ["python", "/app/checkpoint.py"]',
        )
    port = _port(declared.get(CHECKPOINT_PORT_ANNOTATION))
    if port is None or (mode is CheckpointMode.HTTP and not port):
        refuse(CHECKPOINT_PORT_ANNOTATION, 'write the number of the port that the job listens on, such as "8700"')
    path = declared.get(CHECKPOINT_PATH_ANNOTATION, "/checkpoint")
    if not _PATH.fullmatch(path) or ".." in path:
        refuse(CHECKPOINT_PATH_ANNOTATION, "write a path from the root, such as /checkpoint")
    manifests = declared.get(CHECKPOINT_MANIFESTS_ANNOTATION, "")
    needs_manifests = _NEEDS[mode] == CHECKPOINT_MANIFESTS_ANNOTATION
    if (manifests and not _FOLDER.fullmatch(manifests)) or (needs_manifests and not manifests):
        refuse(
            CHECKPOINT_MANIFESTS_ANNOTATION, "write a folder in the pod, such as /checkpoints, or s3://bucket/prefix"
        )
    timeout = _timeout(declared.get(CHECKPOINT_TIMEOUT_ANNOTATION))
    if CHECKPOINT_TIMEOUT_ANNOTATION in declared and timeout is None:
        refuse(CHECKPOINT_TIMEOUT_ANNOTATION, "write a duration of at most 24h, such as 90s, 10m or 1h")
    fallback = declared.get(CHECKPOINT_FALLBACK_ANNOTATION, Otherwise.EVICT)
    if fallback not in list(Otherwise):
        refuse(CHECKPOINT_FALLBACK_ANNOTATION, f"write one of {', '.join(Otherwise)}")
    container = declared.get(CHECKPOINT_CONTAINER_ANNOTATION, "")
    names = [item["name"] for item in pod["spec"].get("containers", [])]
    if container and container not in names:
        refuse(CHECKPOINT_CONTAINER_ANNOTATION, f"the pod has the containers {', '.join(names) or '(none)'}")
    if wrong:
        raise _malformed(pod, wrong)
    return Declaration(
        mode=mode,
        command=tuple(command or ()),
        container=container,
        port=port or 0,
        path=path,
        manifests=manifests.rstrip("/"),
        timeout=timeout,
        fallback=Otherwise(fallback),
        grace_s=grace_period_s(pod),
    )


def _command(value: str | None) -> list[str] | None:
    """The command; empty where none is declared, None where it is malformed."""
    if value is None:
        return []
    try:
        return _COMMAND.validate_json(value) or None
    except ValidationError:
        return None


def _port(value: str | None) -> int | None:
    """The port; 0 where none is declared, None where it is malformed."""
    if value is None:
        return 0
    return int(value) if re.fullmatch(r"[1-9][0-9]{0,4}", value) and int(value) <= 65535 else None


def _timeout(value: str | None) -> timedelta | None:
    if not (found := _DURATION.fullmatch(value or "")):
        return None
    duration = timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    return duration if duration <= _LONGEST else None


def _malformed(pod: Json, wrong: list[str]) -> ValueError:
    return ValueError(f"{pod_name(pod)} declares a checkpoint that cannot be asked for: {'; '.join(wrong)}")
