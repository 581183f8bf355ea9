"""What the active replica does: look at what changed and at what is wrong, once a second, and send what is due.

A report is proved first (its digest in the Node's annotation), then sent, then noted in the ledger, then told as an
Event. Whatever fails is due again at the next look, after a pause; nothing is judged while the watch is cut.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from contract.names import ClusterSource
from contract.proof import digest
from detector.catalogue import catalogue
from detector.cluster import ec2
from detector.cluster.api import Api
from detector.cluster.documents import Rules
from detector.cluster.findings import Due, Findings
from detector.cluster.health_queue import HealthQueue, merged
from detector.cluster.informer import Informer
from detector.cluster.leases import Heartbeats
from detector.cluster.ledger import Ledger, Subject
from detector.cluster.polling import Polling
from detector.cluster.relayed import reports_in
from detector.cluster.settings import WatchSettings
from detector.cluster.sightings import (
    Sighting,
    looks_like_outage,
    of_conditions,
    of_ec2,
    of_readiness,
    of_silence,
    of_taints,
)
from detector.cluster.telling import Pause, Telling
from detector.cluster.view import Lens, NodeView
from detector.temporal_side import TemporalSide
from detector.trouble import Hopeless, Trouble

TICK_S: Final = 0.5
_IN_A_ROW: Final = 3
"""So many failures in a row are nobody's own: the others wait, too."""
_AFTER_QUEUE_S: Final = 1.0
_RATE: Final = "%Y-%m-%dT%H:%M:%SZ"

Say = Callable[[str], None]


class Counters:
    """What there is to tell."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.failures = 0
        self.waiting = 0
        self.away = 0
        self.silent = 0
        self.outage = False
        self.silence_held = False
        self.open: dict[str, int] = {}
        self.round_at = time.monotonic()


class Watching:
    """One term of office of a replica: it starts with what the ledger says, and ends with ``stop``."""

    def __init__(self, api: Api, settings: WatchSettings, rules: Rules, version: str, say: Say) -> None:
        self._api = api
        self._settings = settings
        self._rules = rules
        self._say = say
        self._reads = catalogue().match
        self.counters = Counters()
        self.informer = Informer(api, Lens(rules), say)
        self._ledger = Ledger(api, settings.namespace)
        self._findings = Findings(settings.cluster, version, {})
        self._version = version
        self._temporal = TemporalSide()
        self._loop = asyncio.new_event_loop()
        self._heartbeats = Heartbeats()
        self._ec2: Any = None
        self._words: ec2.Words = {}
        self._queue = HealthQueue(settings.ec2_queue_url) if settings.ec2_queue_url else None
        self._said: ec2.Words = {}
        """What EC2 answered and what its queue told, as of this round."""
        self._pollings: list[Polling] = []
        self._pauses: dict[Subject, Pause] = {}
        self._all = Pause()
        self._in_a_row = 0
        self._suspects: set[str] = set()
        self._unheard: set[str] = set()
        """Sources that are asked and have not answered yet in this term."""
        self._ledger_pause = Pause()
        self._telling = Telling(say)

    def start(self) -> None:
        """Read the ledger and begin to watch.

        Raises:
            Trouble: the ledger cannot be read: without it, old findings would be sent as new ones.
        """
        self._findings = Findings(self._settings.cluster, self._version, self._ledger.load())
        self.informer.start()
        if self._settings.lease_poll_s:
            self._unheard.add(ClusterSource.SILENCE)
            self._poll("leases", self._settings.lease_poll_s, self._look_at_leases)
        if self._settings.ec2_poll_s:
            self._unheard.add(ClusterSource.EC2)
            self._poll("ec2", self._settings.ec2_poll_s, self._ask_ec2)
        if queue := self._queue:
            # A question waits for its answer by itself.
            self._poll("ec2-queue", _AFTER_QUEUE_S, lambda _polling: queue.ask())

    def stop(self) -> None:
        """End all threads; what waits is written if that is possible."""
        for polling in self._pollings:
            polling.stop()
        self.informer.stop()
        try:
            self._ledger.flush()
        except Trouble as trouble:
            self._say(str(trouble))
        self._loop.close()

    def _poll(self, name: str, every_s: float, ask: Callable[[Polling], None]) -> None:
        polling = Polling(name, every_s, lambda: ask(polling), self._say)
        self._pollings.append(polling)
        polling.start()

    def _look_at_leases(self, _polling: Polling) -> None:
        self._heartbeats.look(self._api, self._settings.namespace, time.time())
        self._unheard.discard(ClusterSource.SILENCE)

    def _ask_ec2(self, polling: Polling) -> None:
        self._ec2 = self._ec2 or ec2.client()
        self._words = ec2.ask(self._ec2, polling.pause)
        self._unheard.discard(ClusterSource.EC2)

    def round(self, active: Callable[[], bool]) -> None:
        """Look once, and send what is due while this replica is ``active``."""
        now = time.time()
        self.counters.round_at = time.monotonic()
        if not self.informer.is_alive:
            # It may all be over, and would look as if it went on.
            return
        nodes = self.informer.nodes
        letters = self._queue.letters() if self._queue else {}
        self._said = merged(self._words, self._queue.words(now)) if self._queue else self._words
        silent = self._heartbeats.silent(now)
        names = nodes.take_changed() | self._suspects | self._findings.nodes() | silent.keys() | self._spoken_of()
        views = [view for view in map(nodes.get, names) if view]
        self._weigh(views, len(nodes), silent, now)
        due: list[Due] = []
        for view in views:
            due += self._look(view, silent.get(view.name), now)
        for name in names - {view.name for view in views}:
            self._suspects.discard(name)
            self._note(self._findings.gone(name))
        self._findings.warm = True
        sent = self._send([one for one in due if not self._held(one)], active)
        if self._queue:
            waiting = {one.subject.node for one in due if one.subject not in sent}
            if self._queue.misread:
                self._telling.so("ec2-queue", self._queue.misread)
            self._queue.settle(letters, {str(view.instance_id) for view in views if view.name in waiting})
        self.counters.open = self._findings.open()
        self._flush()

    def _spoken_of(self) -> set[str]:
        """Nodes whose instance EC2 says something of."""
        words = self._said
        return {view.name for view in self.informer.nodes.all() if view.instance_id in words} if words else set()

    def _look(self, view: NodeView, silent_since: float | None, now: float) -> list[Due]:
        seen: list[Sighting] = [
            *of_conditions(view, self._rules, self._reads, now),
            *of_taints(view, self._rules),
            *of_readiness(view, self._settings.not_ready_s),
            *of_ec2(view, self._said.get(view.instance_id or "", ()), self._rules),
            *of_silence(view, silent_since),
        ]
        relayed, refused = reports_in(view, self._settings.cluster)
        if refused:
            self._telling.so(f"relayed/{view.name}", refused[0])
        else:
            self._telling.over(f"relayed/{view.name}")
        (self._suspects.discard if view.plain else self._suspects.add)(view.name)
        look = self._findings.look(view, seen, relayed, now, self._unheard)
        self._note(look.noted)
        return look.due

    def _weigh(self, views: list[NodeView], total: int, silent: dict[str, float], now: float) -> None:
        """Whether so much is wrong at once that the machines are hardly the cause (pitfall 2 of storms)."""
        counters, share = self.counters, self._settings.outage_share
        # Those that still start are many whenever a group grows.
        grown = [view for view in views if now - view.created > self._settings.not_ready_s]
        counters.away = sum(not view.ready and not view.going for view in grown)
        counters.silent = len(silent)
        counters.outage = looks_like_outage(counters.away, total, share)
        counters.silence_held = looks_like_outage(counters.silent, self._heartbeats.known, share)
        if counters.outage:
            self._telling.so(
                "outage",
                f"{counters.away} of {total} nodes are not ready at once: that looks like an outage of the control "
                "plane or its network. Nothing of ours is sent until fewer are; look there first.",
            )
        else:
            self._telling.over("outage", "Fewer nodes are not ready: findings are sent again.")
        if counters.silence_held:
            self._telling.so(
                "silence",
                f"{counters.silent} of {self._heartbeats.known} detectors are silent at once: that looks like a "
                "roll-out, or like rights that they lack. No incident is started for each; look at their DaemonSet.",
            )
        else:
            self._telling.over("silence", "Fewer detectors are silent: each is reported again.")

    def _held(self, due: Due) -> bool:
        if due.source is None:
            return False
        return self.counters.outage or (due.source is ClusterSource.SILENCE and self.counters.silence_held)

    def _send(self, due: list[Due], active: Callable[[], bool]) -> set[Subject]:
        """Send what may go now, and say what went."""
        sent: set[Subject] = set()
        self._pauses = {one.subject: self._pauses[one.subject] for one in due if one.subject in self._pauses}
        self.counters.waiting = len(due)
        for one in due:
            if self._all.lasts or not active():
                return sent
            pause = self._pauses.setdefault(one.subject, Pause())
            if pause.lasts:
                continue
            try:
                self._deliver(one)
            except (Trouble, Hopeless) as trouble:
                pause.failed()
                self.counters.failures += 1
                self._in_a_row += 1
                self._telling.so("delivery", f"A report about {one.subject.node} is not sent: {trouble}")
                if self._in_a_row >= _IN_A_ROW:
                    self._all.failed()
            else:
                self._in_a_row = 0
                self._all.worked()
                self.counters.waiting -= 1
                self._telling.over("delivery", "Reports are sent again.")
                sent.add(one.subject)
        return sent

    def _deliver(self, due: Due) -> None:
        report, subject = due.make(), due.subject
        if due.source is not None:
            self._api.prove(subject.node, subject.uid, digest(report))
        self._loop.run_until_complete(self._temporal.deliver(report))
        self._note({subject: self._findings.sent(due, time.time())})
        self.counters.sent[report.source] = self.counters.sent.get(report.source, 0) + 1
        self._flush()
        if due.source is None:
            return
        first, last = report.first_seen.strftime(_RATE), report.last_seen.strftime(_RATE)
        said = f"{report.message[:700]} (rule {report.rule}, {report.verdict}, source {report.source})"
        try:
            self._api.event(subject.node, subject.uid, subject.key, report.reason, said, first, last, report.count)
        except Trouble as trouble:
            # An Event informs; the report itself is with Temporal.
            self._telling.so("event", str(trouble))

    def _note(self, noted: dict[Subject, Any]) -> None:
        for subject, track in noted.items():
            self._ledger.note(subject, track)

    def _flush(self) -> None:
        if self._ledger_pause.lasts:
            return
        try:
            self._ledger.flush()
        except Trouble as trouble:
            self._ledger_pause.failed()
            self._telling.so("ledger", f"What was sent cannot be noted in the ConfigMap: {trouble}")
        else:
            self._ledger_pause.worked()
            self._telling.over("ledger")
