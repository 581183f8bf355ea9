"""What every act gets without asking: heartbeats while it works, and the node's name in its log lines."""

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from worker.logs import ACT

_log = logging.getLogger(__name__)


class CareInterceptor(Interceptor):
    """Beats for acts, and names their node in logs."""

    def __init__(self, beat: timedelta) -> None:
        """``beat``: time between two heartbeats."""
        self._beat_s = beat.total_seconds()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap an act."""
        return _Caring(next, self._beat_s)


class _Remembering(ActivityOutboundInterceptor):
    """Keeps the details of the last heartbeat: a beat without them would erase what a retry goes on from."""

    def __init__(self, following: ActivityOutboundInterceptor) -> None:
        super().__init__(following)
        self.details: tuple[Any, ...] = ()

    def heartbeat(self, *details: Any) -> None:
        self.details = details
        super().heartbeat(*details)


class _Caring(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, beat_s: float) -> None:
        super().__init__(following)
        self._beat_s = beat_s

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._outbound = _Remembering(outbound)
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        self._outbound.details = tuple(info.heartbeat_details)
        ACT.set(
            {
                "incident": info.workflow_id,
                "run": info.workflow_run_id,
                "activity": info.activity_type,
                "attempt": info.attempt,
                "node": _node_of(input.args[0]) if input.args else "",
            }
        )
        beating = asyncio.create_task(self._beat(), name="heartbeat")
        try:
            return await super().execute_activity(input)
        except ApplicationError as error:
            # Temporal keeps 4 KB of a failure and replaces a longer one as a whole. The sentence for people must get
            # through, so the traces of what is below it stay in the log.
            _log.warning("%s failed: %s", info.activity_type, error.message, exc_info=_is_news(error))
            error.__cause__ = error.__context__ = None
            raise error.with_traceback(None) from None
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._beat_s)
            self._outbound.heartbeat(*self._outbound.details)


def _is_news(error: ApplicationError) -> bool:
    return error.category is not ApplicationErrorCategory.BENIGN and error.__cause__ is not None


def _node_of(argument: Any) -> str:
    target = getattr(argument, "target", None)
    place = getattr(target, "identity", None) or getattr(argument, "request", None) or getattr(argument, "report", None)
    return str(getattr(place, "node", ""))
