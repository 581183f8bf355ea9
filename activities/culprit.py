"""Which node of a job made it hang: what is against each around the moment, weighed. Pure.

The node that reports a hang on collectives waited for another one ([TRB] "possibly caused by a hardware error on
another worker"), so it is never its own suspect. What came after the moment may be the hang's own doing: a job that
hangs is killed, and its ranks fail everywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from activities.claim import read_owner
from activities.cluster import Json
from contract.culprit import Suspect
from contract.names import KERNEL_LOG_HEALTH

_SUSPECTS: Final = 3
_HEARTBEAT_LATE: Final = timedelta(seconds=30)
"""A kubelet renews its Lease every ten seconds (Kubernetes, Node heartbeats)."""
_BEFORE: Final = timedelta(hours=1)
"""What is older than this before the moment counts half: the job has run with it."""
_KUBELETS: Final = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})


class Kind(StrEnum):
    """Kinds of signs."""

    FAULT = "fault"
    AWAY = "away"
    RANK = "rank"


_WEIGHT: Final = {Kind.FAULT: 100, Kind.AWAY: 50, Kind.RANK: 20}
_GRACE: Final = {Kind.FAULT: timedelta(minutes=10), Kind.AWAY: timedelta(minutes=2), Kind.RANK: timedelta(0)}
"""How long after the moment a sign may come and still tell of its cause: conditions are written late, and a node is
called away only when its heartbeat has been missing for a while."""


class Sign(NamedTuple):
    """One thing against a node."""

    kind: Kind
    says: str
    since: datetime | None


def signs(node: Json | None, lease: Json | None, ranks: Sequence[Json], now: datetime) -> list[Sign]:
    """What is against a node: its Node, its kubelet's Lease, and the job's pods on it."""
    if node is None:
        return [Sign(Kind.AWAY, "its Node is gone", None)]
    found = against_node(node)
    if owner := read_owner(node):
        found.append(Sign(Kind.FAULT, f"Nodemend works on it (rule {owner.rule})", owner.since))
    renewed = _moment((lease or {}).get("spec", {}).get("renewTime"))
    if renewed and now - renewed > _HEARTBEAT_LATE:
        found.append(Sign(Kind.AWAY, f"its kubelet renewed its Lease last at {renewed:%H:%M:%S} UTC", renewed))
    return [*found, *(sign for pod in ranks for sign in _of_rank(pod))]


def against_node(node: Json) -> list[Sign]:
    """What its own conditions say against a node: what its kubelet and its monitors alone may write."""
    return [sign for condition in node["status"].get("conditions", []) if (sign := _of_condition(condition))]


def likeliest(
    members: Mapping[str, Iterable[Sign]], complaining: str, moment: datetime
) -> list[tuple[str, list[Sign]]]:
    """The nodes that weigh most, and what is against them; never the one that complained."""
    weighed = []
    for name, all_signs in members.items():
        counted = [sign for sign in all_signs if _in_time(sign, moment)]
        if name != complaining and counted:
            counted.sort(key=lambda sign: -_WEIGHT[sign.kind])
            weighed.append((_score(counted, moment), name, counted))
    top = max((score for score, _, _ in weighed), default=0.0)
    return [(name, counted) for score, name, counted in sorted(weighed, key=lambda w: w[1]) if score == top][:_SUSPECTS]


def suspect(name: str, node: Json | None, found: Sequence[Sign]) -> Suspect:
    """One of them, as people read it."""
    owner = read_owner(node) if node else None
    provider_id = node["spec"].get("providerID", "") if node else ""
    return Suspect(
        node=name,
        instance_id=provider_id.rpartition("/")[2],
        evidence=tuple(sign.says for sign in found)[:5],
        incident=owner.incident if owner else "",
    )


def _score(found: Sequence[Sign], moment: datetime) -> float:
    """Each kind counts once, by its newest sign: three conditions about one fault are one fault."""
    best: dict[Kind, float] = {}
    for sign in found:
        old = sign.since is not None and moment - sign.since > _BEFORE
        best[sign.kind] = max(best.get(sign.kind, 0.0), _WEIGHT[sign.kind] / (2 if old else 1))
    return sum(best.values())


def _in_time(sign: Sign, moment: datetime) -> bool:
    return sign.since is None or sign.since <= moment + _GRACE[sign.kind]


def _of_condition(condition: Json) -> Sign | None:
    kind, status = condition["type"], condition["status"]
    since, reason = _moment(condition.get("lastTransitionTime")), condition.get("reason", "no reason")
    if kind == "Ready":
        return Sign(Kind.AWAY, f"it is not ready ({reason})", since) if status != "True" else None
    # The EKS node monitoring agent says `…Ready` and False; all others say what is wrong, and True.
    bad = "False" if kind.endswith("Ready") else "True"
    if kind in _KUBELETS or kind == KERNEL_LOG_HEALTH or status != bad:
        return None
    return Sign(Kind.FAULT, f"its condition {kind} says {reason}", since)


def _of_rank(pod: Json) -> list[Sign]:
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    found = []
    for status in pod.get("status", {}).get("containerStatuses", []):
        for state in (status.get("state", {}), status.get("lastState", {})):
            ended = state.get("terminated")
            if ended and ended.get("exitCode"):
                ended_at = _moment(ended.get("finishedAt"))
                found.append(Sign(Kind.RANK, f"its rank {name} ended with code {ended['exitCode']}", ended_at))
    return found


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
