"""One trace per incident: the detector that starts one names the trace, in W3C Trace Context (``traceparent``).

The id is the report's own request id, so a delivery made twice is one trace, and no detector needs an SDK for it. The
header is where the Temporal SDK's tracing interceptors look (``temporalio.contrib.opentelemetry``).
"""

import json
import re
from typing import Final

TRACE_HEADER: Final = "_tracer-data"
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def carrier(request_id: str) -> str:
    """The header's document for a report with this request id (32 hex digits, as a trace id)."""
    return json.dumps({"traceparent": f"00-{request_id}-{span_id(request_id)}-01"})


def span_id(request_id: str) -> str:
    """Id of the reporting process's own span, below which everything of the incident stands."""
    return request_id[:16]


def trace_id(document: bytes) -> str:
    """The trace id in a header's document; empty where it names none: a foreign header stops no repair."""
    try:
        found = json.loads(document)
    except ValueError:
        return ""
    match = _TRACEPARENT.fullmatch(str(found.get("traceparent", ""))) if isinstance(found, dict) else None
    return match[1] if match else ""
