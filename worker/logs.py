"""JSON logs, one object per line, each with the incident and the node it is about."""

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

ACT: Final[ContextVar[Mapping[str, object]]] = ContextVar("nodemend_act", default={})  # noqa: B039 - read only
"""Incident, run, activity, attempt and node of the current act; set by the interceptor, whoever logs below it."""


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON. Temporal puts its ids into the record's extra fields."""
        temporal: dict[str, Any] = {
            **getattr(record, "temporal_workflow", {}),
            **getattr(record, "temporal_activity", {}),
        }
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "incident": temporal.get("workflow_id"),
            "run": temporal.get("workflow_run_id") or temporal.get("run_id"),
            **ACT.get(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({key: value for key, value in fields.items() if value not in (None, "")}, ensure_ascii=False)


def configure_logs(level: str) -> None:
    """Send everything to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # boto and urllib3 log request contents at DEBUG and retries at WARNING; ours says the same with the incident's id.
    for noisy in ("botocore", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
