"""What every act gets without asking: heartbeats, its trail for the record, and the node's name in its log lines."""

import asyncio
import contextlib
import dataclasses
import logging
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from activities.written import Writes, noting
from contract.trail import Trail
from worker.logs import ACT
from worker.trails import Carried, answered, failed, failing, split, with_trail

_log = logging.getLogger(__name__)

_QUICK: Final = timedelta(minutes=1)
_SILENCE: Final = timedelta(seconds=5)
"""Acts that may not take longer beat that many times slower as this fits into the silence that they are allowed:
nothing stops them between two beats anyhow, and each beat is a write of Temporal's."""


class CareInterceptor(Interceptor):
    """Beats for acts, and names their node in logs."""

    def __init__(self, beat: timedelta) -> None:
        """``beat``: time between two heartbeats."""
        self._beat_s = beat.total_seconds()
        self._carried = Carried()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap an act."""
        return _Caring(next, self._beat_s, self._carried)


class _Remembering(ActivityOutboundInterceptor):
    """Keeps the details of the last heartbeat: a beat without them would erase what a retry goes on from.

    Behind an act's own details goes its trail, which the act itself never sees.
    """

    def __init__(self, following: ActivityOutboundInterceptor) -> None:
        super().__init__(following)
        self.details: tuple[Any, ...] = ()
        self.writes = Writes(Trail())

    def info(self) -> activity.Info:
        found = super().info()
        return dataclasses.replace(found, heartbeat_details=split(tuple(found.heartbeat_details))[0])

    def heartbeat(self, *details: Any) -> None:
        self.details = details
        self.beat(self.writes.trail)

    def beat(self, trail: Trail) -> None:
        """Beat with what was told last."""
        super().heartbeat(*with_trail(self.details, trail))


class _Caring(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, beat_s: float, carried: Carried) -> None:
        super().__init__(following)
        self._beat_s = beat_s
        self._carried = carried

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._outbound = _Remembering(outbound)
        super().init(self._outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = self._outbound.next.info()
        self._outbound.details, trail = split(tuple(info.heartbeat_details))
        run_id = str(info.workflow_run_id)
        self._outbound.writes = writes = Writes(self._carried.take(run_id, trail))
        ACT.set(
            {
                "incident": info.workflow_id,
                "run": info.workflow_run_id,
                "activity": info.activity_type,
                "attempt": info.attempt,
                "node": _node_of(input.args[0]) if input.args else "",
            }
        )
        beating = asyncio.create_task(self._beat(self._beat_s * _slower(info)), name="heartbeat")
        try:
            with noting(writes):
                return answered(await super().execute_activity(input), writes, info.attempt)
        except ApplicationError as error:
            # Temporal keeps 4 KB of a failure and replaces a longer one as a whole. The sentence for people must get
            # through, so the traces of what is below it stay in the log.
            _log.warning("%s failed: %s", info.activity_type, error.message, exc_info=_is_news(error))
            trail = failing(error, writes, info.attempt)
            self._outbound.beat(trail)
            raise failed(error, trail).with_traceback(None) from None
        except (CancelledError, asyncio.CancelledError):
            self._carried.leave(run_id, writes.trail)
            raise
        except Exception as error:
            self._outbound.beat(failing(error, writes, info.attempt))
            raise
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _beat(self, pause_s: float) -> None:
        while True:
            await asyncio.sleep(pause_s)
            self._outbound.beat(self._outbound.writes.trail)


def _slower(info: activity.Info) -> float:
    """By how much an act beats slower than others."""
    quick = info.start_to_close_timeout is not None and info.start_to_close_timeout <= _QUICK
    return info.heartbeat_timeout / _SILENCE if quick and info.heartbeat_timeout else 1


def _is_news(error: ApplicationError) -> bool:
    return error.category is not ApplicationErrorCategory.BENIGN and error.__cause__ is not None


def _node_of(argument: Any) -> str:
    target = getattr(argument, "target", None)
    place = getattr(target, "identity", None) or getattr(argument, "request", None) or getattr(argument, "report", None)
    return str(getattr(place, "node", ""))
