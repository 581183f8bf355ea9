"""One active replica: a Lease that its holder renews, and that another takes when it was not renewed for its duration.

The package's own election ends with an exception while the API server is away, waits without a bound on a connection
that hangs, and does not give the Lease back; this does what client-go's does. The clocks of replicas are not compared:
each counts from when it saw the Lease change. Two at once would be harmless, for every write of theirs can be repeated.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from contract.names import WATCH_CLUSTER
from detector.api_server import Conflict
from detector.cluster.api import Api
from detector.cluster.view import Json
from detector.trouble import Trouble

LEASE_S: Final = 15
_RENEW_S: Final = 3.0
_GIVE_UP_S: Final = 10.0
"""Who could not renew for so long is not active any more: before another can be."""


class Seen(NamedTuple):
    """The Lease as it was when it changed last, and when that was seen."""

    holder: str
    renewed: str
    at: float


def may_take(spec: Json, seen: Seen | None, identity: str, now: float) -> tuple[bool, Seen]:
    """Whether the Lease is free, or expired, or ours; and what to remember of it. Pure."""
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    if seen is None or (seen.holder, seen.renewed) != (holder, renewed):
        seen = Seen(holder, renewed, now)
    expired = now - seen.at > float(spec.get("leaseDurationSeconds") or LEASE_S)
    return holder in ("", identity) or expired, seen


class Election:
    """A thread that holds the Lease, or waits for it."""

    def __init__(self, api: Api, namespace: str, identity: str, say: Callable[[str], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._identity = identity
        self._say = say
        self._stop = threading.Event()
        self._seen: Seen | None = None
        self._renewed_at = -LEASE_S * 1.0
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Stand for election."""
        self._thread.start()

    def stop(self) -> None:
        """Give the Lease back, so that the other need not wait for it to expire."""
        self._stop.set()
        self._thread.join(5)

    @property
    def is_active(self) -> bool:
        """This replica holds the Lease, and no other can."""
        return time.monotonic() - self._renewed_at < _GIVE_UP_S

    @property
    def is_alive(self) -> bool:
        """The thread does its work, whether or not the API server answers."""
        return self._thread.is_alive()

    def _run(self) -> None:
        told = ""
        while not self._stop.is_set():
            try:
                self._try()
                told = ""
            except Conflict:
                pass
            except Trouble as trouble:
                if str(trouble) != told:
                    told = str(trouble)
                    self._say(told)
            self._stop.wait(_RENEW_S)
        if self.is_active:
            self._give_back()

    def _try(self) -> None:
        asked = time.monotonic()
        lease = self._api.lease(self._namespace, WATCH_CLUSTER) or {"metadata": {"name": WATCH_CLUSTER}, "spec": {}}
        may, self._seen = may_take(lease["spec"], self._seen, self._identity, asked)
        if not may:
            return
        spec = lease["spec"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        lease["spec"] = {**spec, "holderIdentity": self._identity, "leaseDurationSeconds": LEASE_S, "renewTime": now}
        self._api.write_lease(self._namespace, lease)
        if not self.is_active:
            self._say(f"This replica ({self._identity}) is the active one.")
        # Counted from before the call: another counts from when it sees the write, which is later.
        self._renewed_at = asked

    def _give_back(self) -> None:
        try:
            lease = self._api.lease(self._namespace, WATCH_CLUSTER)
            if lease and lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"]["holderIdentity"] = ""
                self._api.write_lease(self._namespace, lease)
        except Trouble:
            return
