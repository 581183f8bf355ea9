"""What was reported of each thing that is or was wrong: what makes one occurrence one report, over restarts too. Pure.

A finding's identity is ``(node, boot id, sequence number)``, and only the kernel log has such numbers. Here the
number is made: the second at which it became so, shifted left by 20 bits, plus 20 bits of a digest of Node UID and
subject. It grows with time, is the same for whoever looks, and stays below 2**53, so that every JSON reader keeps it.
"""

import hashlib
from typing import Final, NamedTuple

from contract.fault import FaultReport
from detector.cluster.sightings import Sighting
from detector.cluster.view import NodeView, moment

_DIGEST_BITS: Final = 20
FLAP_S: Final = 3600.0
"""What comes again so soon after it ended is the same finding with a higher count."""
UPDATE_S: Final = 60.0
"""Counts are told at most so often, as the node's detector does."""
_DAEMON: Final = 3
"""Facility of system daemons (RFC 5424): none of these reports is a kernel record."""


class Track(NamedTuple):
    """One finding: since when, how often, and what of it was sent."""

    seq: int
    last_seq: int
    transition: str
    times: int
    first_seen: float
    last_seen: float
    sent_times: int = 0
    sent_at: float = 0.0
    ended_at: float | None = None

    def due(self, now: float) -> bool:
        """There is something to tell, and it may be told now."""
        return self.sent_times < self.times and (self.sent_times == 0 or now - self.sent_at >= UPDATE_S)

    def sent(self, now: float) -> "Track":
        """It was told as it is."""
        return self._replace(sent_times=self.times, sent_at=now)

    def ended(self, now: float) -> "Track":
        """It is over; its first report stays the one to be counted up, should it come again soon."""
        return self if self.ended_at is not None else self._replace(ended_at=now)

    def is_over(self, now: float) -> bool:
        """It may be forgotten."""
        return self.ended_at is not None and now - self.ended_at > FLAP_S


def sequence(uid: str, subject: str, at: float) -> int:
    """The number that stands for a record's."""
    digest = hashlib.sha256(f"{uid}/{subject}".encode()).digest()
    return (int(at) << _DIGEST_BITS) | (int.from_bytes(digest[:4], "big") & ((1 << _DIGEST_BITS) - 1))


def follow(known: Track | None, uid: str, sighting: Sighting, now: float) -> Track:
    """The track of something that is seen, held long enough: begun, left as it is, or counted up."""
    at = min(sighting.since, now) if sighting.since is not None else now
    if known is None or known.is_over(now):
        seq = sequence(uid, sighting.subject, at)
        return Track(seq, seq, sighting.transition, 1, first_seen=at, last_seen=at)
    # What its source gives no time for is told apart by having been away alone.
    if sighting.transition == known.transition and (sighting.transition or known.ended_at is None):
        return known._replace(ended_at=None)
    return known._replace(
        last_seq=max(known.last_seq, sequence(uid, sighting.subject, at)),
        transition=sighting.transition,
        times=known.times + 1,
        last_seen=max(known.last_seen, at),
        ended_at=None,
    )


def report_of(view: NodeView, sighting: Sighting, track: Track, cluster: str, version: str) -> FaultReport:
    """What travels to Temporal."""
    return FaultReport(
        cluster=cluster,
        node=view.name,
        instance_id=view.instance_id,
        boot_id=view.boot_id,
        seq=track.seq,
        last_seq=track.last_seq if track.last_seq != track.seq else None,
        source=sighting.source,
        rule=sighting.rule,
        component=sighting.component,
        verdict=sighting.verdict,
        data=sighting.data,
        evidence_end=sighting.evidence_end,
        workload_alive=sighting.workload_alive,
        device_resource=sighting.device_resource,
        condition_type=sighting.condition_type,
        reason=sighting.reason,
        signature=sighting.signature,
        fields={**sighting.fields, "node.uid": view.uid},
        message=sighting.message,
        facility=_DAEMON,
        level=sighting.level,
        kernel_time_us=0,
        first_seen=moment(track.first_seen),
        last_seen=moment(track.last_seen),
        count=track.times,
        detector_version=version,
    )
