"""ReapOrphans: a schedule's errand for what incidents leave behind. Terminate runs no clean-up, so somebody must look.

It decides nothing by itself: one act looks at the claim on each Node, at its incident in Temporal, and at whether what
that incident was about still holds; the other at the incidents whose record nobody wrote.
"""

import asyncio
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from contract.names import REAP_ORPHANS, ActivityName
    from contract.reaping import Exported, ExportRecords, Reaped
    from contract.reaping import ReapOrphans as Errand

_WITHIN: Final = timedelta(minutes=5)
"""For one look; the schedule comes again."""


@workflow.defn(name=REAP_ORPHANS)
class ReapOrphans:
    """One look over the cluster."""

    @workflow.run
    async def run(self, errand: Errand) -> Reaped:
        """Look once, and say what was done."""
        if workflow.patched("records-too"):
            exporting = asyncio.create_task(self._export(errand), name="export-records")
            found, exported = await self._reap(errand), await exporting
            found = found.model_copy(update={"exported": exported})
        else:
            found = await self._reap(errand)
        lines = [
            f"- {node}: {says}"
            for part in (found.restarted, found.given_back, found.left, found.exported)
            for node, says in part.items()
        ]
        workflow.set_current_details(
            "\n".join(lines) or "No node without its incident, and no incident without its record."
        )
        return found

    async def _reap(self, errand: Errand) -> Reaped:
        found: Reaped = await workflow.execute_activity(
            ActivityName.REAP_ORPHANS,
            errand,
            result_type=Reaped,
            start_to_close_timeout=_WITHIN,
            schedule_to_close_timeout=2 * _WITHIN,
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        return found

    async def _export(self, errand: Errand) -> dict[str, str]:
        """Records are no reason to leave a node: what fails here is said, and tried again by the next look."""
        try:
            exported: Exported = await workflow.execute_activity(
                ActivityName.EXPORT_RECORDS,
                ExportRecords(cluster=errand.cluster),
                result_type=Exported,
                start_to_close_timeout=_WITHIN,
                schedule_to_close_timeout=2 * _WITHIN,
                retry_policy=RetryPolicy(maximum_attempts=3),
            )
        except ActivityError as error:
            return {"records": f"could not be looked for ({error.cause}); the next look tries again."}
        return {
            **{incident: f"its record is at {uris}" for incident, uris in exported.written.items()},
            **{incident: f"its record is missing: {why}" for incident, why in exported.missed.items()},
        }
