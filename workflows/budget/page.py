"""What the Temporal UI shows on FleetBudget's page: Markdown, at most 4,000 characters (see ``workflows.narrator``)."""

from collections import Counter
from typing import Final

from contract.permit import BudgetState, PermitKind, QueuedRequest
from contract.words import counted

_MAX: Final = 4000
_LINE_MAX: Final = 240
_NAMED: Final = 12
"""Entries named in each section; the rest are counted."""


def page(state: BudgetState) -> str:
    """Who holds permits, who waits and why, what stands in the way of all."""
    sections = [_headline(state), _stops(state), _waiting(state), _held(state), _orders(state)]
    return "\n\n".join(section for section in sections if section)[:_MAX]


def _headline(state: BudgetState) -> str:
    out = Counter(item.request.kind for item in state.held)
    used = ", ".join(f"{out[kind]} {kind}" for kind in PermitKind)
    return f"**{counted(len(state.held), 'permit')} out ({used}), {counted(len(state.queue), 'waits', 'wait')}**"


def _stops(state: BudgetState) -> str:
    lines = [
        _line(f"- {pause.place}, by {pause.by} at {pause.at:%Y-%m-%d %H:%M} UTC: {pause.reason}")
        + f"\n  - `{pause.lifted_by}` lifts it"
        for pause in state.pauses
    ]
    paused = "\n".join(["### Paused", *lines]) if lines else ""
    up = [guard for guard in state.guards if guard.cleared_at is None]
    suspected = [f"- {guard.words} (since {guard.since:%Y-%m-%d %H:%M} UTC)" for guard in up]
    guards = "\n".join(["### A common cause is suspected", *map(_line, suspected)]) if suspected else ""
    return "\n\n".join(section for section in (paused, guards) if section)


def _waiting(state: BudgetState) -> str:
    """By reason: of a thousand that wait for one thing, one line is enough."""
    if not state.queue:
        return ""
    by_reason: dict[str, list[QueuedRequest]] = {}
    for item in state.queue:
        by_reason.setdefault(item.reason or "not looked at yet", []).append(item)
    lines = []
    for reason, items in sorted(by_reason.items(), key=lambda pair: -len(pair[1]))[:_NAMED]:
        names = ", ".join(f"`{item.request.name}`" for item in items[:3])
        more = f" and {len(items) - 3} more" if len(items) > 3 else ""
        lines.append(_line(f"- {names}{more}: {reason}."))
        # On a line of its own: cut off behind a long reason it would be of no use.
        if items[0].releases:
            lines.append(_line(f"  - {items[0].releases}"))
    return "\n".join(["### Waiting", *lines])


def _held(state: BudgetState) -> str:
    lines = [
        _line(
            f"- {item.request.kind} `{item.request.name}` since {item.granted_at:%Y-%m-%d %H:%M} UTC"
            + (
                f", approved by {item.request.approval.by}: {item.request.approval.reason}"
                if item.request.approval
                else ""
            )
        )
        for item in state.held[:_NAMED]
    ]
    more = [f"- and {len(state.held) - _NAMED} more"] if len(state.held) > _NAMED else []
    return "\n".join(["### Out", *(lines or ["- none"]), *more])


def _orders(state: BudgetState) -> str:
    lines = [
        _line(f"- `{order.at:%Y-%m-%d %H:%M}` {order.name} by {order.by}: {order.reason} ({order.answer})")
        for order in reversed(state.orders[-5:])
    ]
    return "\n".join(["### What humans said", *lines]) if lines else ""


def _line(text: str) -> str:
    return text if len(text) <= _LINE_MAX else text[: _LINE_MAX - 1] + "…"
