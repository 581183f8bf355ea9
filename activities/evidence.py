"""Whether what a machine was closed for holds still, looked at right before its work is disturbed (D31). Pure.

An incident may wait for hours for the fleet's leave, and meanwhile somebody reboots the machine, or the condition that
another detector had set is gone: then nothing is the matter with it any more.
"""

from collections.abc import Sequence

from activities.cluster import Json
from activities.node_facts import boot_id
from contract.acts import Cause


def why_over(causes: Sequence[Cause], node: Json) -> str:
    """Why none of it holds any more; empty while any does, or nobody can tell."""
    reasons = [_over(one, node) for one in causes]
    return reasons[0] if reasons and all(reasons) else ""


def _over(one: Cause, node: Json) -> str:
    """Why one finding holds no more. One that no boot ends stays true of the machine whatever its Node says."""
    if not one.boot_id:
        return ""
    now = boot_id(node)
    if now and now != one.boot_id:
        return f"it has booted anew since (boot {now}, and the fault was of boot {one.boot_id})"
    status = next((c["status"] for c in node["status"].get("conditions", []) if c["type"] == one.condition), "")
    # A writer that is gone, or does not know, takes nothing back (C5).
    if one.bad_status and status in {"True", "False"} - {one.bad_status}:
        return f"its condition {one.condition} is {status} again"
    return ""
