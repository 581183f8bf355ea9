"""A real worker that halts when one act is done, until the incident cancels it: a human can press anywhere."""

import os
import sys
from typing import Any

from temporalio import activity
from temporalio.exceptions import CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from worker import main as worker_main
from worker.interceptors import CareInterceptor

ACT = os.environ["TEST_HALT_AFTER"]


class Halting(CareInterceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return super().intercept_activity(_Halt(next))


class _Halt(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        result = await super().execute_activity(input)
        if activity.info().activity_type == ACT:
            # Seen by the test in *Pending Activities*.
            activity.heartbeat({"halted": True})
            await activity.wait_for_cancelled()
            raise CancelledError("the incident stopped this act")
        return result


if __name__ == "__main__":
    worker_main.CareInterceptor = Halting  # type: ignore[misc]
    worker_main.end(worker_main.main(sys.argv[1:]))
