"""A real worker that kills itself with SIGKILL once at each act named in a file: before it, or after it is done.

``after`` is the nasty moment: the world is changed and Temporal does not know.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from worker import main as worker_main
from worker.interceptors import CareInterceptor
from worker.process import end

PLAN = Path(os.environ["TEST_DEATHS"])
"""One ``act moment`` a line; a line is struck out before the process dies of it."""


class Deadly(CareInterceptor):
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return super().intercept_activity(_Dying(next))


class _Dying(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        act = activity.info().activity_type
        die_if_planned(act, "before")
        result = await super().execute_activity(input)
        die_if_planned(act, "after")
        return result


def die_if_planned(act: str, moment: str) -> None:
    plan = PLAN.read_text().splitlines()
    if f"{act} {moment}" in plan:
        plan.remove(f"{act} {moment}")
        PLAN.write_text("\n".join(plan))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    worker_main.CareInterceptor = Deadly  # type: ignore[misc]
    end(worker_main.main(sys.argv[1:]))
