"""All findings of the cluster: what is seen is held against what was reported. No I/O; the caller sends.

It is level triggered: each look says how a node is, and what is due follows from that and from the tracks. So nothing
is lost by a look that was missed, and nothing waits in a queue while Temporal is away.
"""

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import NamedTuple

from contract.fault import FaultReport
from contract.names import ClusterSource
from detector.cluster.ledger import Subject, Tracks
from detector.cluster.relayed import track_of
from detector.cluster.sightings import Sighting
from detector.cluster.tracks import Track, follow, report_of
from detector.cluster.view import NodeView


class Due(NamedTuple):
    """A report that may be sent now."""

    subject: Subject
    track: Track
    source: ClusterSource | None
    """None: the node's own detector made it, and has proved it."""
    make: Callable[[], FaultReport]
    """Made when it is sent: while an outage holds thousands back, they are due at every look."""


class Look(NamedTuple):
    """What came of looking at a node."""

    due: list[Due]
    noted: dict[Subject, Track | None]
    """What the ledger should have; None: nothing any more."""


class Findings:
    """The tracks of all nodes."""

    def __init__(self, cluster: str, version: str, known: Tracks) -> None:
        self._cluster = cluster
        self._version = version
        self._tracks: dict[str, Tracks] = {}
        self._since: dict[str, dict[Subject, float]] = {}
        """Since when each is seen here."""
        self.warm = False
        """After the first round, what is new began now; before, it began when the cluster says."""
        for subject, track in known.items():
            self._tracks.setdefault(subject.node, {})[subject] = track

    def nodes(self) -> set[str]:
        """Nodes that something is known or awaited of."""
        return self._tracks.keys() | self._since.keys()

    def look(
        self,
        view: NodeView,
        seen: Sequence[Sighting],
        relayed: Sequence[FaultReport],
        now: float,
        unheard: Container[str] = (),
    ) -> Look:
        """A node is like this now.

        Args:
            view: the node.
            seen: what is wrong with it.
            relayed: the reports that it carries.
            now: in seconds since the epoch.
            unheard: sources that have not answered yet: that they say nothing does not mean that it is over.
        """
        tracks = self._tracks.setdefault(view.name, {})
        since = self._since.setdefault(view.name, {})
        look = Look([], {})
        present: set[Subject] = set()
        for sighting in seen:
            subject = Subject(view.name, view.uid, sighting.subject)
            present.add(subject)
            began = now if self.warm or sighting.since is None else min(now, sighting.since)
            if sighting.stale or now - since.setdefault(subject, began) < sighting.hold_s:
                continue
            known = tracks.get(subject)
            tracks[subject] = track = follow(known, view.uid, sighting, now)
            if track.due(now):
                make = partial(report_of, view, sighting, track, self._cluster, self._version)
                look.due.append(Due(subject, track, sighting.source, make))
            elif known and track != known and track.sent_times:
                look.noted[subject] = track
        for report in relayed:
            subject = Subject(view.name, view.uid, f"{report.source}/{report.key}")
            present.add(subject)
            tracks[subject] = track = track_of(tracks.get(subject), report)
            if track.due(now):
                look.due.append(Due(subject, track, None, partial(_as_it_is, report)))
        for subject in since.keys() - present:
            del since[subject]
        silent = {subject for subject in tracks if subject.name.partition("/")[0] in unheard}
        self._end(view, tracks, present | silent, look, now)
        self._tidy(view.name)
        return look

    def _end(self, view: NodeView, tracks: Tracks, present: set[Subject], look: Look, now: float) -> None:
        for subject in tracks.keys() - present:
            track = tracks[subject]
            if subject.uid != view.uid or track.sent_times == 0 or track.is_over(now):
                del tracks[subject]
                if track.sent_times:
                    look.noted[subject] = None
            elif track.ended_at is None:
                tracks[subject] = look.noted[subject] = track.ended(now)

    def gone(self, node: str) -> dict[Subject, Track | None]:
        """A Node is no more, and with it all that was said of it."""
        self._since.pop(node, None)
        return {subject: None for subject, track in self._tracks.pop(node, {}).items() if track.sent_times}

    def sent(self, due: Due, now: float) -> Track:
        """A report is with Temporal."""
        track = self._tracks[due.subject.node][due.subject] = due.track.sent(now)
        return track

    def open(self) -> dict[str, int]:
        """How many findings are open, by source."""
        counts: dict[str, int] = {}
        for tracks in self._tracks.values():
            for subject, track in tracks.items():
                if track.ended_at is None:
                    source = subject.name.partition("/")[0]
                    counts[source] = counts.get(source, 0) + 1
        return counts

    def _tidy(self, node: str) -> None:
        if not self._tracks[node]:
            del self._tracks[node]
        if not self._since[node]:
            del self._since[node]


def _as_it_is(report: FaultReport) -> FaultReport:
    return report
