"""The runbook on a real Temporal server, as in ``tests/runbook``."""

from tests.runbook.conftest import play, task_queue, temporal, world

__all__ = ["play", "task_queue", "temporal", "world"]
