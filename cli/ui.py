"""Links of saved views in the Temporal UI: visiting one keeps the view in that browser."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from contract.names import FLEET_BUDGET, REMEDIATE_NODE, SearchAttribute

_OPEN = f'WorkflowType="{REMEDIATE_NODE}" AND ExecutionStatus="Running"'


def saved_views(base: str, group: str, signature: str, now: datetime) -> Iterator[tuple[str, str]]:
    """Name and link of each view; ``base`` is the list of workflows of a namespace."""
    day_ago = (now.astimezone(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    views = {
        "Open incidents": _OPEN,
        # A fleet that a common cause holds needs one too.
        "Needs a human": f'WorkflowType IN ("{REMEDIATE_NODE}", "{FLEET_BUDGET}") AND ExecutionStatus="Running" AND '
        f"{SearchAttribute.NEEDS_HUMAN}=true",
        "Last 24 h": f'WorkflowType="{REMEDIATE_NODE}" AND StartTime>"{day_ago}"',
        "Budget": f'WorkflowType="{FLEET_BUDGET}"',
    }
    if group:
        views[f"Group {group}"] = f'{_OPEN} AND {SearchAttribute.NODE_GROUP}="{group}"'
    if signature:
        views[f"Fault {signature}"] = f'{_OPEN} AND {SearchAttribute.FAULT_SIGNATURE}="{signature}"'
    for name, query in views.items():
        yield name, f"{base}?query={quote(query, safe='')}&savedQuery={quote(name, safe='')}"
