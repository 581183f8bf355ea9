"""What was sent, kept in a ConfigMap, so that neither a restart nor another replica sends it as something new.

One key per finding, written as soon as Temporal has it. Between the two a process may die; then the report goes out
again under the same request id, which Temporal and the incident recognise.
"""

import hashlib
import json
import re
from typing import Final, NamedTuple

from contract.names import WATCH_CLUSTER
from detector.cluster.api import Api
from detector.cluster.tracks import Track

_NOT_OF_A_KEY: Final = re.compile(r"[^A-Za-z0-9._-]")


class Subject(NamedTuple):
    """Which finding of which Node object."""

    node: str
    uid: str
    name: str

    @property
    def key(self) -> str:
        """Its key in the ConfigMap and in the names of its Events: the node, readable, and a digest."""
        digest = hashlib.sha256(f"{self.uid}/{self.name}".encode()).hexdigest()[:16]
        return f"{_NOT_OF_A_KEY.sub('_', self.node)[:200]}.{digest}"


Tracks = dict[Subject, Track]


class Ledger:
    """The ConfigMap."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._waiting: dict[str, str | None] = {}

    def load(self) -> Tracks:
        """What was sent. What another version wrote and this one cannot read is as if it were not there.

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        found: Tracks = {}
        for text in self._api.config_map(self._namespace, WATCH_CLUSTER).values():
            entry = decoded(text)
            if entry:
                found[entry[0]] = entry[1]
        return found

    def note(self, subject: Subject, track: Track | None) -> None:
        """Remember it, or forget it; ``flush`` writes."""
        self._waiting[subject.key] = encoded(subject, track) if track else None

    @property
    def waits(self) -> bool:
        """Something is not written yet."""
        return bool(self._waiting)

    def flush(self) -> None:
        """Write what waits.

        Raises:
            Trouble: the API server cannot be reached or refuses; it goes on waiting.
        """
        if self._waiting:
            self._api.change_config_map(self._namespace, WATCH_CLUSTER, self._waiting)
            self._waiting = {}


def encoded(subject: Subject, track: Track) -> str:
    """One entry as text."""
    return json.dumps({**subject._asdict(), **track._asdict()}, separators=(",", ":"))


def decoded(text: str) -> tuple[Subject, Track] | None:
    """One entry from its text; None for what this version did not write."""
    try:
        entry = json.loads(text)
        subject = Subject(**{name: str(entry[name]) for name in Subject._fields})
        track = Track(**{name: entry[name] for name in Track._fields})
        return subject, track._replace(seq=int(track.seq), times=int(track.times), sent_times=int(track.sent_times))
    except (ValueError, TypeError, KeyError):
        return None
