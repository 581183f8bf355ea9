"""The fleet's budget from the command line: what is in use, who waits and why, and pausing it."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from cli.errors import CommandError
from cli.incidents import QUERY_PATIENCE
from cli.pressing import WHO_AND_WHY, Pressed, why_refused, wrong_options
from cli.views import elapsed
from contract.budget import BudgetOrder
from contract.names import BUDGET_QUERY, BUDGET_TASK_QUEUE, FLEET_BUDGET, BudgetOrderName, ExitCode, budget_id
from contract.permit import BudgetState, HeldPermit, PermitKind, PermitRequest, QueuedRequest
from contract.words import counted

_ANSWER_WITHIN: Final = timedelta(seconds=8)
_UNANSWERED: Final = frozenset({RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED})
_ROWS_MAX: Final = 100
_NAMED: Final = 5
"""Of those that wait for one reason."""


async def look_at_budget(client: Client, cluster: str) -> BudgetState:
    """FleetBudget as of now; an empty one where nobody has asked it for anything yet.

    Raises:
        CommandError: no worker answers.
    """
    try:
        state: BudgetState = await client.get_workflow_handle(budget_id(cluster)).query(
            BUDGET_QUERY, result_type=BudgetState, rpc_timeout=QUERY_PATIENCE
        )
    except (RPCError, WorkflowQueryFailedError) as error:
        if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
            return BudgetState(cluster=cluster)
        raise CommandError(
            f"The budget of cluster {cluster!r} is not known: no worker answers.",
            "Nothing is granted meanwhile. Start a worker (`nodemend work`) and try again.",
            ExitCode.UNAVAILABLE,
        ) from error
    return state


async def tell_budget(
    client: Client, cluster: str, name: BudgetOrderName, *, by: str, reason: str, group: str | None
) -> Pressed:
    """Pause or resume, starting FleetBudget where it does not run yet: a pause must hold from its first grant on.

    Raises:
        CommandError: it was refused, or who or why is missing.
        RPCError: Temporal refuses, or is away.
    """
    try:
        order = BudgetOrder(by=by, reason=reason, group=group)
    except ValidationError as error:
        problems = "; ".join(f"--{option} {what}" for option, what in wrong_options(error).items())
        raise CommandError(f"{problems}.", WHO_AND_WHY, ExitCode.USAGE) from error
    start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
        FLEET_BUDGET,
        BudgetState(cluster=cluster),
        id=budget_id(cluster),
        task_queue=BUDGET_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=f"Permits of {cluster}",
    )
    try:
        answer: str = await client.execute_update_with_start_workflow(
            name, order, start_workflow_operation=start, result_type=str, rpc_timeout=_ANSWER_WITHIN
        )
    except WorkflowUpdateFailedError as error:
        raise CommandError(why_refused(error), "Nothing was changed.", ExitCode.FAILED) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        return await _leave_a_signal(client, cluster, name, order)
    except RPCError as error:
        if error.status not in _UNANSWERED:
            raise
        return await _leave_a_signal(client, cluster, name, order)
    return Pressed(answer, applied=True)


async def _leave_a_signal(client: Client, cluster: str, name: BudgetOrderName, order: BudgetOrder) -> Pressed:
    """Saying it twice changes nothing, should the update arrive after all."""
    await client.start_workflow(
        FLEET_BUDGET,
        BudgetState(cluster=cluster),
        id=budget_id(cluster),
        task_queue=BUDGET_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=name,
        start_signal_args=[order],
        static_summary=f"Permits of {cluster}",
    )
    return Pressed(
        f"No worker answered within {_ANSWER_WITHIN.total_seconds():.0f} s, so `{name}` was left as a signal: it is "
        "applied before anything else is granted, as soon as a worker runs.",
        applied=False,
    )


def budget_view(state: BudgetState, url: str = "") -> RenderableType:
    """What is paused or suspected, who waits and why, who holds what."""
    held = {kind: sum(item.request.kind is kind for item in state.held) for kind in PermitKind}
    used = ", ".join(f"{number} {kind}" for kind, number in held.items())
    out, waiting = len(state.held) + state.held_unnamed, len(state.queue) + state.queue_unnamed
    more = f", and {state.held_unnamed} more that are not named" if state.held_unnamed else ""
    lines: list[RenderableType] = [
        Text(f"{counted(out, 'permit')} out ({used}{more}), {counted(waiting, 'waits', 'wait')}.")
    ]
    for pause in state.pauses:
        said = f"Paused: {pause.place}, by {pause.by} {elapsed(pause.at)} ago: {pause.reason}"
        lines.append(Text(said, style="bold yellow"))
    for guard in state.guards:
        if guard.cleared_at is None:
            lines.append(Text(f"A common cause is suspected: {guard.words}", style="bold red"))
    if state.queue:
        lines.append(_table("Waits", _waiting(state.queue), state.queue_unnamed))
    if state.held:
        lines.append(_table("Holds", (_holding(item) for item in state.held), state.held_unnamed))
    for order in state.orders[-5:]:
        said = f"{order.at:%Y-%m-%d %H:%M} {order.name} by {order.by}: {order.reason} ({order.answer})"
        lines.append(Text(said, style="dim"))
    if url:
        lines.append(Text(url, style=f"dim link {url}", overflow="fold"))
    return Group(*lines)


def _table(title: str, rows: Iterable[tuple[str, ...]], unnamed: int) -> RenderableType:
    table = Table(box=None, header_style="bold")
    for name in (title, "Node", "Group", "For", "Why"):
        table.add_column(name, overflow="fold")
    rest = iter(rows)
    for row in islice(rest, _ROWS_MAX):
        table.add_row(*map(escape, row))
    named = sum(1 for _ in rest)
    if not named + unnamed:
        return table
    has = "has them" if not unnamed else f"has {named} of them, and the metrics count all"
    return Group(table, Text(f"… and {named + unnamed} more. `--output json` {has}.", style="yellow"))


def _waiting(queue: Iterable[QueuedRequest]) -> Iterator[tuple[str, ...]]:
    """By reason: of a thousand that wait for one thing, one row is enough. The one that waits longest comes first."""
    rows: dict[tuple[str, str, str], list[QueuedRequest]] = {}
    for item in sorted(queue, key=lambda item: item.asked_at):
        why = f"{item.reason}. {item.releases}" if item.reason else "not looked at yet"
        rows.setdefault((str(item.request.kind), _groups(item.request), why), []).append(item)
    for (kind, group, why), items in rows.items():
        names = ", ".join(item.request.name for item in items[:_NAMED])
        more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
        yield kind, names + more, group, elapsed(items[0].asked_at), why


def _holding(item: HeldPermit) -> tuple[str, ...]:
    approval = item.request.approval
    why = f"approved by {approval.by}: {approval.reason}" if approval else "within the limits"
    request, held = item.request, f" (was held: {item.released_from})" if item.released_from else ""
    return str(request.kind), request.name, _groups(request), elapsed(item.granted_at), why + held


def _groups(request: PermitRequest) -> str:
    return ", ".join(sorted({part.group or "none" for part in request.parts}))
