"""The rules of ``watch-cluster``: YAML that people write, checked by pydantic.

Who writes a condition decides what its status means: the node problem detector says ``True`` for a problem, the EKS
node monitoring agent says ``False`` (C10). So each type names its bad status, and a type that nobody has described
says nothing at all.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from contract.fault import DataTrust, EvidenceEnd, Verdict
from contract.model import Document
from detector.catalogue import CatalogueError

BUILT_IN: Final = Path(__file__).parent
_KUBELETS_OWN: Final = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
"""Kubernetes documentation, "Node Status": the kubelet and the cloud's controllers act on these themselves."""
_NOT_OF_AN_ID: Final = re.compile(r"[^a-z0-9]+")
T = TypeVar("T", bound="_Findings")


class RuleDocument(Document):
    """What a reason means."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{2,60}$")
    reason: str
    """Python regular expression that must match the whole reason; its named groups become fields, and the signature."""
    component: str | None = None
    """None: the type's."""
    verdict: Verdict = Verdict.AMBIGUOUS
    data: DataTrust = DataTrust.TRUSTED
    evidence_end: EvidenceEnd = EvidenceEnd.BOOT
    workload_alive: bool = True
    device_resource: str | None = None
    level: int = Field(default=3, ge=0, le=7)
    """How severe, as syslog counts (RFC 5424): 3 is an error, 5 a notice."""
    kernel_log: bool = False
    """The fault shows itself in the kernel log, where the node's own detector reads it first hand."""

    @field_validator("reason")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression ({error})") from error
        return value


class _Findings(Document, ABC):
    """What conditions, taints and EC2's words have in common."""

    component: str
    hold_s: float = Field(default=60.0, ge=0)
    """So long must it be so before it is reported."""
    provenance: str
    """Where the knowledge comes from."""
    rules: tuple[RuleDocument, ...] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """What tells it from others of its kind."""

    def rule_for(self, reason: str) -> tuple[RuleDocument, dict[str, str]]:
        """The first rule that knows the reason. One that nobody has described is ambiguous: a human looks at it."""
        for rule in self.rules:
            if found := re.fullmatch(rule.reason, reason):
                return rule, {key: value for key, value in found.groupdict().items() if value}
        plain = _NOT_OF_AN_ID.sub("-", _hyphenated(self.name).lower()).strip("-")[:50]
        return RuleDocument(id=f"unknown-{plain}", reason=".*"), {"reason": reason} if reason else {}


class ConditionDocument(_Findings):
    """A type of node condition."""

    type: str
    bad_status: Literal["True", "False"]
    heartbeat_s: float | None = Field(default=900.0, gt=0)
    """Not refreshed for so long, it is unknown rather than what it last said (C5); None where its writer refreshes it
    only when it changes."""

    @property
    def name(self) -> str:
        """Its type."""
        return self.type

    @field_validator("type")
    @classmethod
    def _is_not_the_kubelets(cls, value: str) -> str:
        if value in _KUBELETS_OWN:
            raise ValueError(
                f"{value} belongs to the kubelet and the cluster, who act on it themselves; NotReady is watched by "
                "NODEMEND_NOT_READY_S"
            )
        return value


class TaintDocument(_Findings):
    """A taint that means a fault; its value is the reason."""

    key: str

    @property
    def name(self) -> str:
        """Its key."""
        return self.key


class Ec2Document(_Findings):
    """Something that EC2 says of an instance; its code is the reason."""

    kind: Literal["event", "system-status", "instance-status"]

    @property
    def name(self) -> str:
        """Its kind."""
        return f"ec2-{self.kind}"


class Rules(Document):
    """What ``watch-cluster`` looks for."""

    conditions: tuple[ConditionDocument, ...] = ()
    taints: tuple[TaintDocument, ...] = ()
    ec2: tuple[Ec2Document, ...] = ()

    @model_validator(mode="after")
    def _has_each_once(self) -> "Rules":
        for kind in (self.conditions, self.taints, self.ec2):
            names = [entry.name for entry in kind]
            if doubled := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{doubled[0]} is described twice")
        return self


def load_rules(extra: Path | None = None) -> Rules:
    """Ours, and a user's folder of ``*.yaml``: what it describes takes the place of ours of the same name.

    Raises:
        CatalogueError: a file is not valid.
    """
    ours = _read_folder(BUILT_IN)
    theirs = _read_folder(extra) if extra else Rules()
    return Rules(
        conditions=_merged(ours.conditions, theirs.conditions),
        taints=_merged(ours.taints, theirs.taints),
        ec2=_merged(ours.ec2, theirs.ec2),
    )


def _merged(ours: Sequence[T], theirs: Sequence[T]) -> tuple[T, ...]:
    return tuple({entry.name: entry for entry in (*ours, *theirs)}.values())


def _read_folder(folder: Path) -> Rules:
    if not folder.is_dir():
        raise CatalogueError(f"NODEMEND_CLUSTER_RULES_DIR: {folder} is no folder: mount the one with your *.yaml.")
    found = [_read(path) for path in sorted(folder.glob("*.yaml"))]
    try:
        return Rules(
            conditions=tuple(entry for rules in found for entry in rules.conditions),
            taints=tuple(entry for rules in found for entry in rules.taints),
            ec2=tuple(entry for rules in found for entry in rules.ec2),
        )
    except ValidationError as error:
        raise CatalogueError(f"{folder}: {error.errors()[0]['msg']} in its files. Keep one of the two.") from error


def _read(path: Path) -> Rules:
    try:
        return Rules.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise CatalogueError(f"{path}, {field}: {first['msg']}. Mend or remove it.") from error
    except (yaml.YAMLError, OSError) as error:
        raise CatalogueError(f"{path} cannot be read as YAML ({error}).") from error


def _hyphenated(name: str) -> str:
    """``KernelReady`` as ``Kernel-Ready``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
