"""The schedule of ReapOrphans, made once by whichever worker starts first."""

import logging
from datetime import timedelta
from typing import Final

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.service import RPCError

from contract import reaping
from contract.names import REAP_ORPHANS, TASK_QUEUE, reaper_id

_log = logging.getLogger(__name__)

_CATCH_UP: Final = timedelta(minutes=1)
"""What was due while Temporal was away is not made up for: one look sees all."""


async def keep_reaping(client: Client, cluster: str, interval_s: float) -> None:
    """See that the schedule is there. One that is there is left alone: somebody may have paused it, or set its pace.

    Args:
        client: of the namespace.
        cluster: whose nodes.
        interval_s: how often; 0 for no schedule.
    """
    if not interval_s:
        return
    every = timedelta(seconds=interval_s)
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            REAP_ORPHANS,
            reaping.ReapOrphans(cluster=cluster),
            id=reaper_id(cluster),
            task_queue=TASK_QUEUE,
            execution_timeout=2 * max(every, timedelta(minutes=10)),
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)], jitter=every / 10),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_CATCH_UP),
        state=ScheduleState(note="Nodemend looks for nodes whose incident was terminated (docs/operating.md)."),
    )
    try:
        await client.create_schedule(reaper_id(cluster), schedule)
    except ScheduleAlreadyRunningError:
        return
    except RPCError as error:
        _log.warning(
            "The schedule %s could not be made (%s): nodes of terminated incidents stay closed until the next finding. "
            "Let this worker's credentials write schedules in namespace %s.",
            reaper_id(cluster),
            error.message,
            client.namespace,
        )
        return
    _log.info("Made the schedule %s: it looks for nodes of terminated incidents", reaper_id(cluster))
