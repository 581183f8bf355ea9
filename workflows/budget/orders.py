"""What a human may tell FleetBudget: pause and resume, of the cluster or of one group. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from contract.budget import BudgetOrder, OrderRecord, Pause
from contract.names import BudgetOrderName

EXAMPLE: Final = '{"by": "you", "reason": "why", "group": null}'
DESCRIPTIONS: Final = {
    BudgetOrderName.PAUSE: f"Grant no new permits, to the whole cluster or to one group. {EXAMPLE}",
    BudgetOrderName.RESUME: f"Lift the pause of the whole cluster, or that of one group. {EXAMPLE}",
}


def take_order(
    name: BudgetOrderName, payload: object, pauses: Sequence[Pause], now: datetime
) -> tuple[tuple[Pause, ...], OrderRecord]:
    """The pauses after an order, and what becomes of it in the record. A wrong one is refused with what is right."""
    try:
        order = BudgetOrder.model_validate(payload)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'argument'}: {item['msg']}" for item in error.errors()
        )
        text = f"`{name}` was not applied, its argument is not valid ({problems}). Send {EXAMPLE}."
        return tuple(pauses), OrderRecord(name=name, by="unknown", reason="", at=now, accepted=False, answer=text)
    accepted, answer, after = _apply(name, order, tuple(pauses), now)
    return after, OrderRecord(name=name, by=order.by, reason=order.reason, at=now, accepted=accepted, answer=answer)


def _apply(
    name: BudgetOrderName, order: BudgetOrder, pauses: tuple[Pause, ...], now: datetime
) -> tuple[bool, str, tuple[Pause, ...]]:
    others = tuple(pause for pause in pauses if pause.group != order.group)
    pause = Pause(group=order.group, by=order.by, reason=order.reason, at=now)
    if name is BudgetOrderName.PAUSE:
        # Whoever misspelt a group would think that it is paused.
        alone = ", the group of exactly this name (`nodemend status` shows a node's)" if order.group else ""
        return True, f"No new permits for {pause.place}{alone}. What was granted before goes on.", (*others, pause)
    still = ", ".join(f"{other.place} (by {other.by}: {other.reason})" for other in others)
    remains = f" Still paused: {still}." if still else ""
    if len(others) == len(pauses):
        return False, f"There is no pause of {pause.place}.{remains}", pauses
    return True, f"Permits for {pause.place} are granted again, as the limits allow.{remains}", others
