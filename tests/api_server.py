"""What the API server says of itself on ``/metrics``: the calls it answered, whoever made them, and how fast."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from deploy.local.stack import Stack

_CALLS = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)
_LATENCY = re.compile(r"^apiserver_request_duration_seconds_bucket\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LONG = {"WATCH", "CONNECT"}
"""They last as long as they are wanted."""


@dataclass
class Served:
    """Counts since the API server began; subtract an earlier one."""

    evictions: Counter[str] = field(default_factory=Counter)
    """Answers to evictions by status code."""
    buckets: Counter[float] = field(default_factory=Counter)
    """Requests that were answered within so many seconds, by that bound."""

    def __sub__(self, earlier: "Served") -> "Served":
        evictions, buckets = Counter(self.evictions), Counter(self.buckets)
        evictions.subtract(earlier.evictions)
        buckets.subtract(earlier.buckets)
        return Served(evictions, buckets)

    def p99_s(self) -> float:
        """The bound below which 99 % of the requests were answered."""
        total = self.buckets[float("inf")]
        return min(bound for bound, count in self.buckets.items() if count >= 0.99 * total)


def served(stack: Stack) -> Served:
    """As of now."""
    text, found = _scrape(stack), Served()
    for match in _CALLS.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        if labels.get("subresource") == "eviction":
            found.evictions[labels["code"]] += int(float(match["value"]))
    for match in _LATENCY.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        if labels["verb"] not in _LONG:
            found.buckets[float(labels["le"])] += int(float(match["value"]))
    return found


def _scrape(stack: Stack) -> str:
    with stack.kubernetes.connected() as api:
        key: Any = api.configuration.auth_settings()["BearerToken"]
        pool: Any = api.rest_client.pool_manager
        answer = pool.request("GET", f"{api.configuration.host}/metrics", headers={key["key"]: key["value"]})
        text: str = answer.data.decode()
    return text
