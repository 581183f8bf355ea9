"""What Karpenter would do by itself to the machines of a NodePool, under a repair and under a job. Pure.

Shapes and defaults as in ``karpenter.sh/v1`` (Karpenter, Disruption; NodePools). ``karpenter.sh/do-not-disrupt``, which
a quarantine sets on its Node, holds consolidation and drift off, and not expiration.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from cli.doctor.findings import Finding, Json, Level
from contract.names import DO_NOT_DISRUPT_ANNOTATION, STARTUP_TAINT
from contract.policy import GroupPolicy, Mode

_ABOUT: Final = "other repairers"
_NEVER: Final = "Never"
_EXPIRES: Final = "720h"
_ANY_USE: Final = "WhenEmptyOrUnderutilized"
_AT_ONCE: Final = "0s"
_UNITS: Final = {"h": "hours", "m": "minutes", "s": "seconds"}


def of_disruption(pool: Json, holds: GroupPolicy) -> Iterator[Finding]:
    """Whether a NodePool's machines are ended to save money, or for their age."""
    yield from _of_consolidation(pool, holds)
    yield from _of_expiration(pool)


def _of_consolidation(pool: Json, holds: GroupPolicy) -> Iterator[Finding]:
    spec = pool["spec"]
    if spec.get("replicas") is not None:
        # A static NodePool keeps its number of machines, whatever their use.
        return
    disruption = spec.get("disruption") or {}
    after, policy = disruption.get("consolidateAfter", _AT_ONCE), disruption.get("consolidationPolicy", _ANY_USE)
    if after == _NEVER:
        return
    budgets, proof = disruption.get("budgets") or [], holds.deadlines.verification
    # Karpenter leaves a machine alone until its startup taints are off.
    kept_until_proven = STARTUP_TAINT in {taint["key"] for taint in _template(pool).get("startupTaints") or []}
    ends_empty = not _never(budgets, "Empty") and not kept_until_proven and _span(after) < proof
    moves_work = policy == _ANY_USE and not _never(budgets, "Underutilized")
    means, reasons, more = [], [], []
    if ends_empty:
        reasons.append("Empty")
        means.append("a replacement stays empty until it is proven, and may be ended meanwhile")
        minutes = f"{proof.total_seconds() / 60:.0f}m"
        more.append(f"a consolidateAfter of {minutes} or more (deadlines.verification) spares replacements")
    if moves_work:
        reasons.append("Underutilized")
        means.append("a machine at work is ended, without a checkpoint, where its pods fit elsewhere")
        more.append(f"pods annotated {DO_NOT_DISRUPT_ANNOTATION} are left where they are")
    if reasons:
        yield Finding(
            _ABOUT,
            Level.WRONG if ends_empty and holds.mode is Mode.ACT else Level.NOTE,
            f"Karpenter consolidates NodePool {pool['metadata']['name']} ({policy}, consolidateAfter {after})",
            "; ".join(means),
            f"set its spec.disruption.consolidateAfter to Never, or add to spec.disruption.budgets one of nodes "
            f'"0" for {" and ".join(reasons)}; {"; ".join(more)}',
        )


def _of_expiration(pool: Json) -> Iterator[Finding]:
    template = _template(pool)
    expires, grace = template.get("expireAfter", _EXPIRES), template.get("terminationGracePeriod")
    if expires == _NEVER:
        return
    waited = f"no longer than its terminationGracePeriod of {grace}" if grace else "to their end"
    yield Finding(
        _ABOUT,
        Level.NOTE,
        f"Karpenter ends each machine of NodePool {pool['metadata']['name']} {expires} after its launch (expireAfter)",
        f"whatever runs there, without a checkpoint, under a repair too: no budget and no {DO_NOT_DISRUPT_ANNOTATION} "
        "on the Node holds it; a repair stops and asks a human",
        f"annotate the jobs' pods {DO_NOT_DISRUPT_ANNOTATION}: they are waited for, {waited}; or set "
        "spec.template.spec.expireAfter to Never, for machines to come (those that run keep their limit, and drift by "
        'the change: a budget of nodes "0" for Drifted has them left alone)',
    )


def _template(pool: Json) -> Json:
    template: dict[str, Any] = pool["spec"].get("template", {}).get("spec") or {}
    return template


def _never(budgets: list[Json], reason: str) -> bool:
    """Whether a budget that always holds lets nothing be disrupted for a reason."""
    return any(
        str(one.get("nodes")) in ("0", "0%") and not one.get("schedule") and reason in (one.get("reasons") or [reason])
        for one in budgets
    )


def _span(text: str) -> timedelta:
    """A duration as Karpenter has it (``1h30m``)."""
    return timedelta(**{_UNITS[unit]: float(number) for number, unit in re.findall(r"([0-9.]+)([hms])", text)})
