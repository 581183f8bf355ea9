"""A real worker that halts when one act is done, until the incident cancels it: a human can press anywhere."""

import functools
import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from activities.waiting import pause
from worker import main as worker_main
from worker.interceptors import CareInterceptor
from worker.process import end

HOURS = timedelta(hours=1)
ACT = os.environ["TEST_HALT_AFTER"]
halted = threading.Event()
"""It has: what the incident asks once more after it was cancelled is answered."""


class Halting(CareInterceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return super().intercept_activity(_Halt(next))


class _Halt(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if activity.info().activity_type == ACT:
            input.fn = _halting(input.fn)
        return await super().execute_activity(input)


def _halting(act: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(act)
    def halts(*arguments: Any) -> Any:
        result = act(*arguments)
        if halted.is_set():
            return result
        halted.set()
        # Seen by the test in *Pending Activities*.
        activity.heartbeat({"halted": True})
        pause(HOURS.total_seconds())
        return result

    return halts


if __name__ == "__main__":
    worker_main.CareInterceptor = Halting  # type: ignore[misc]
    end(worker_main.main(sys.argv[1:]))
