"""ReapOrphans: a schedule's errand for nodes whose incident is gone. Terminate runs no clean-up, so somebody must look.

It decides nothing by itself: the act looks at the claim on each Node, at its incident in Temporal, and at whether
what that incident was about still holds.
"""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from contract.names import REAP_ORPHANS, ActivityName
    from contract.reaping import Reaped
    from contract.reaping import ReapOrphans as Errand

_WITHIN: Final = timedelta(minutes=5)
"""For one look; the schedule comes again."""


@workflow.defn(name=REAP_ORPHANS)
class ReapOrphans:
    """One look over the cluster."""

    @workflow.run
    async def run(self, errand: Errand) -> Reaped:
        """Look once, and say what was done."""
        found: Reaped = await workflow.execute_activity(
            ActivityName.REAP_ORPHANS,
            errand,
            result_type=Reaped,
            start_to_close_timeout=_WITHIN,
            schedule_to_close_timeout=2 * _WITHIN,
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        lines = [
            f"- {node}: {says}"
            for part in (found.restarted, found.given_back, found.left)
            for node, says in part.items()
        ]
        workflow.set_current_details("\n".join(lines) or "No node without its incident.")
        return found
