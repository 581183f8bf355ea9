"""Repairs that did not help. A new machine from a broken image fails as the old one did: after each such repair the
same fault in the same group waits twice as long, and then one node goes ahead of the others."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from contract.budget import Limit, RepairResult
from contract.budget_policy import FailedRepairs
from contract.permit import PermitKind, PermitRequest, QueuedRequest
from workflows.budget.ledger import Ledger
from workflows.budget.refusal import Refusal

_REMEMBERED: Final = 500


class Backoff:
    """What was repaired lately, and what of it failed."""

    def __init__(self, policy: FailedRepairs, repairs: Iterable[RepairResult], now: datetime) -> None:
        self._policy = policy
        self._now = now
        self._failures: dict[tuple[str, str], list[RepairResult]] = {}
        for repair in sorted(repairs, key=lambda item: item.at):
            failures = self._failures.setdefault((repair.group, repair.fault), [])
            if repair.failed:
                failures.append(repair)
            else:
                failures.clear()

    def refusal(self, ledger: Ledger, request: PermitRequest) -> Refusal | None:
        """Whether repairs of this fault in this group have failed, and until when it waits for that."""
        if request.kind is not PermitKind.DISRUPTION:
            return None
        failures = self._failures.get((request.group, request.fault))
        if not failures:
            return None
        last, number = failures[-1], len(failures)
        until = last.at + min(self._policy.longest, self._policy.first * 2 ** min(number - 1, 20))
        place = request.group or "no group"
        said = f"{number} repair{'s' * (number > 1)} of {request.fault} in {place} failed, the last on {last.node}"
        if self._now < until:
            return Refusal(
                Limit.FAILED_REPAIRS,
                said,
                f"The next may try at {_clock(until)}, or now with `approve`: see why first.",
            )
        if others := ledger.repairs_of(request):
            return Refusal(
                Limit.FAILED_REPAIRS,
                f"{said}, so one goes ahead: {min(others)}",
                "It goes on when that repair has succeeded, or now with `approve`.",
            )
        return None


def remember(
    repairs: Sequence[RepairResult], queue: Iterable[QueuedRequest], policy: FailedRepairs, now: datetime
) -> tuple[RepairResult, ...]:
    """The repairs that still count. One whose new machine asks with the same fault has failed after all."""
    asking = {(item.request.group, item.request.fault, item.request.node): item.asked_at for item in queue}
    kept = []
    for repair in repairs:
        relapse = asking.get((repair.group, repair.fault, repair.replacement)) if repair.replacement else None
        failed = relapse is not None and not repair.failed and relapse > repair.at
        kept.append(repair.model_copy(update={"failed": True, "at": relapse}) if failed else repair)
    return tuple(repair for repair in kept if now - repair.at < policy.forget)[-_REMEMBERED:]


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
