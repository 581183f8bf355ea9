"""Watch: the process that reads the kernel log for as long as the node lives. Small, and stopped by no network or disk.

It reads, counts and matches; ``detector.keeper`` puts findings on the disk beside it, and a courier that it spawns
talks to Temporal and Kubernetes. Standard library alone, at most 20 MB. The rules of the correctness reference that
it keeps are named K1 to K27 in ``tests/detecting``.
"""

import json
import os
import random
import select
import signal
import sys
import time
from typing import Any, Final

from detector.conditions import Conditions
from detector.counters import Counters
from detector.couriers import Couriers
from detector.exporter import Exporter
from detector.findings import Findings, iso
from detector.hoard import Hoard, Round
from detector.keeper import Keeper
from detector.kmsg import BlindError, Reader, written_at
from detector.lines import Line, Lines
from detector.losses import Losses
from detector.marker import Marker
from detector.metrics import Facts, expose
from detector.refuge import Refuge
from detector.rules import Catalogue
from detector.spool import Spool
from detector.state import STARTED_OVER, alone_in, boot_id, machine, take_up

_TICK_S: Final = 1.0
_FILE_TICK_S: Final = 0.1
"""A regular file wakes nobody when it grows."""
_NAP_S: Final = 0.02
"""After a few harmless lines: the next ones are read together. The ring holds many times what comes meanwhile."""
_FEW: Final = 64
_SAVE_EVERY_S: Final = 5.0
_HEARTBEAT_S: Final = 240.0
"""Under the five minutes after which consumers call a condition stale (C5)."""
_TOLD_AGAIN_S: Final = 10.0
"""At most this often does a change of conditions alone start a courier."""
_RETRY_CAP_S: Final = 60.0
_STUCK_S: Final = 30.0
"""A disk that is silent for this long is a fault."""


class Watch:
    """The loop and what it knows."""

    def __init__(
        self,
        log: str,
        folder: str,
        catalogue: Catalogue,
        exporter: Exporter,
        marker: Marker,
        couriers: Couriers,
        counters: Counters,
    ) -> None:
        """Take up where the last one stopped.

        Raises:
            OSError: the folder cannot be used at all.
        """
        self._log = log
        self._catalogue = catalogue
        self._exporter = exporter
        self._marker = marker
        self._boot_id, self._machine = boot_id(), machine()
        state, why_none = take_up(folder, self._machine)
        self._notes: list[tuple[str, str]] = [(STARTED_OVER, why_none)] if why_none else []
        same_boot = state.get("boot_id") == self._boot_id
        seq = state.get("seq") if same_boot and state.get("log", log) == log else None
        self._cursor: int | None = seq if isinstance(seq, int) else None
        self._findings = Findings(state.get("findings") if same_boot else None)
        self._conditions = Conditions(state.get("conditions"), same_boot=same_boot)
        self._counters = counters
        counters.take_up(state.get("counters") if same_boot else None)
        self._lines, self._hoard = Lines(catalogue), Hoard()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._spool = Spool(folder)
        if self._spool.broken:
            self._notes.append(
                ("DetectorSpoolDamaged", f"{self._spool.broken} spooled entries could not be read and are lost.")
            )
        self.keeper = Keeper(self._spool, lambda: os.eventfd_write(self._wake, 1))
        self._couriers = couriers
        self._refuge = Refuge(folder)
        self._reader: Reader | None = None
        self._blind = "not opened yet"
        self._open_at, self._open_wait = 0.0, 1.0
        self._losses = Losses()
        self._read = 0
        self._last_read_at = time.monotonic()
        self._saved_at, self._dirty, self._urgent = 0.0, True, True
        self._heartbeat_at, self._courier_at = 0.0, 0.0
        self._trouble_told = False
        self._house_at = 0.0
        self._more = self._nap = False
        self._poll = select.poll()
        self._poll.register(exporter.descriptor, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self.stopping = False

    def run(self) -> None:
        """Watch until told to stop."""
        self.keeper.start()
        self._counters.start(lambda: os.eventfd_write(self._wake, 1))
        while not self.stopping:
            self.turn()
        self._judge_the_rest()
        self._couriers.stop(12.0)
        self._refuge.stop(5.0)
        self.keeper.collect()
        self._save(force=True)
        if not self.keeper.stop(5.0):
            _say("The disk did not take everything: those records are read again after the next start.")

    def turn(self) -> None:
        """One round: wait for something, read what there is, see to what is due."""
        woken = self._wait()
        now = time.monotonic()
        if self._reader is None and now >= self._open_at:
            self._open(now)
        told = self._read_a_round(now) if self._reader is not None else False
        if told or woken or now >= self._house_at:
            self._house_at = now + _TICK_S
            self._keep_house(now)

    def _wait(self) -> bool:
        """Sleep until there is something to do. Returns whether something other than the log woke us."""
        if self._more:
            timeout = 0.0
        elif self._reader is not None and not self._reader.is_device:
            timeout = _FILE_TICK_S
        else:
            timeout = 0.2 if self._couriers.running else _TICK_S
        # A nap is deaf to the log on purpose: it only looks at the others.
        listening = self._reader is not None and self._reader.is_device and not self._nap
        if listening and self._reader is not None:
            self._poll.register(self._reader.descriptor, select.POLLIN | select.POLLPRI)
        woken = self._couriers.running
        for descriptor, _ in self._poll.poll((_NAP_S if self._nap else timeout) * 1000):
            if descriptor == self._exporter.descriptor:
                self._exporter.serve(self.health, self.metrics)
            elif descriptor == self._wake:
                os.eventfd_read(self._wake)
                woken = True
        if listening and self._reader is not None:
            self._poll.unregister(self._reader.descriptor)
        return woken

    def _open(self, now: float) -> None:
        try:
            self._reader = Reader(self._log, self._cursor)
        except BlindError as error:
            if self._blind != error.reason:
                _say(f"The kernel log cannot be read: {error.reason}. Trying again.")
            self._go_blind(error.reason, now + self._open_wait * random.uniform(0.5, 1.0))  # noqa: S311
            self._open_wait = min(self._open_wait * 2, _RETRY_CAP_S)
        else:
            self._conditions.end("blind")
            self._blind, self._open_wait = "", 1.0

    def _go_blind(self, reason: str, open_at: float) -> None:
        self._blind, self._open_at = reason, open_at
        self._nap = self._more = False
        self._conditions.tell("blind", "KernelLogUnreadable", reason, iso(time.time()), time.monotonic(), ends="told")

    def _read_a_round(self, now: float) -> bool:
        """Read and judge one round of records. Returns whether something was found or lost."""
        assert self._reader is not None
        live = not self._reader.catching_up
        try:
            batch = self._reader.batch()
        except BlindError as error:
            _say(f"{error.reason}. Opening it again.")
            self._judge_the_rest()
            self._reader.close()
            self._reader = None
            self._go_blind(error.reason, now + self._open_wait)
            self._open_wait = min(self._open_wait * 2, _RETRY_CAP_S)
            return True
        if self._reader.started_over:
            self._note(STARTED_OVER, f"{self._reader.started_over}: all records of this boot are read again.")
            self._reader.started_over = ""
        self._losses.add(batch.lost)
        told = bool(batch.lost)
        read = Round(batch.raws, batch.last_seq, live)
        if read.raws:
            self._last_read_at = now
        if read.raws and (batch.more or self._hoard) and self._reader.is_device:
            self._hoard.put(read)
            # The ring comes first: what is not read in time is lost, what is read can wait.
            if not batch.more or self._hoard.full:
                told |= self._judge(self._hoard.take())
        elif read.raws:
            told |= self._judge(read)
        elif self._hoard:
            told |= self._judge(self._hoard.take())
        elif held := self._lines.release():
            told |= self._take(held, live=live)
        self._more = batch.more or bool(self._hoard)
        self._nap = 0 < len(batch.raws) < _FEW and self._reader.is_device and not told
        return told

    def _judge(self, read: Round) -> bool:
        self._read += len(read.raws)
        told = False
        for line in self._lines.sift(read.raws, self._marker, self._findings.remember):
            told |= self._take(line, live=read.live)
        self._cursor, self._dirty = read.last_seq, True
        return told

    def _judge_the_rest(self) -> None:
        while self._hoard:
            self._judge(self._hoard.take())

    def _take(self, line: Line, *, live: bool) -> bool:
        record, match = line
        if match.rule.verdict == "benign":
            return False
        now, wall = time.monotonic(), time.time()
        if not live and self._reader is not None and self._reader.is_device:
            now, wall = written_at(record, now, wall)
        report = self._findings.take(record, match, now, wall)
        if report is not None:
            self._tell(report)
            self._counters.look()
        return report is not None

    def _tell(self, report: "dict[str, Any]") -> None:
        self._conditions.take(report, self._boot_id, time.monotonic())
        self.keeper.submit("finding", {**report, "boot_id": self._boot_id})
        self._dirty = self._urgent = True

    def _note(self, reason: str, message: str) -> None:
        """An Event about the detector itself."""
        _say(message)
        self.keeper.submit(
            "note",
            {
                "reason": reason,
                "message": message,
                "signature": reason,
                "boot_id": self._boot_id,
                "seq": self._cursor or 0,
                "seen": iso(time.time()),
                "count": 1,
            },
        )
        self._dirty = self._urgent = True

    def _keep_house(self, now: float) -> None:
        self._marker.beat(now)
        for report in [*self._findings.due(now), *self._counters.moved(now, time.time())]:
            self._tell(report)
        while self._notes:
            self._note(*self._notes.pop())
        self._tell_loss(now)
        self._tell_deafness(now)
        self._conditions.expire(now)
        self._save()
        self._see_to_couriers(now)

    def _tell_loss(self, now: float) -> None:
        if message := self._losses.due(now):
            self._conditions.tell("loss", "KernelRecordsLost", message, iso(time.time()), now, ends="loss")
            self._note("KernelRecordsLost", message)
            self._counters.look(lost=True)

    def _tell_deafness(self, now: float) -> None:
        if self._marker.problem:
            self._conditions.tell("deaf", "KernelLogSilent", self._marker.problem, iso(time.time()), now, ends="told")
        else:
            self._conditions.end("deaf")

    def _save(self, *, force: bool = False) -> None:
        """Have the state kept. The keeper writes it after the findings that lie before the cursor."""
        now = time.monotonic()
        if self._conditions.changed:
            self._conditions.changed = False
            self._dirty = self._urgent = True
            self._heartbeat_at = min(self._heartbeat_at, self._courier_at + _TOLD_AGAIN_S)
        if not self._dirty or not (force or self._urgent or now - self._saved_at >= _SAVE_EVERY_S):
            return
        self.keeper.keep(self._state())
        self._dirty = self._urgent = False
        self._saved_at = now

    def _state(self) -> str:
        """What the next watch takes up, and what the courier tells the node."""
        return json.dumps(
            {
                "boot_id": self._boot_id,
                "machine": self._machine,
                "log": self._log,
                "seq": self._cursor if not self._lines.holding else self._lines.before_held,
                "findings": self._findings.known(),
                "conditions": self._conditions.known(),
                "counters": self._counters.known(),
                "worst": self._conditions.worst(),
                "condition_types": sorted({rule.condition_type for rule in self._catalogue.rules}),
                "port": self._exporter.port,
            },
            ensure_ascii=False,
        )

    def _see_to_couriers(self, now: float) -> None:
        if self._couriers.ended():
            self.keeper.collect()
            return
        trouble = self._disk_problem()
        if trouble and self.keeper.waiting:
            self._refuge.hold(self.keeper.peek(), self._state(), trouble)
            return
        self._refuge.leave()
        if bool(trouble) != self._trouble_told:
            self._heartbeat_at = min(self._heartbeat_at, self._courier_at + _TOLD_AGAIN_S)
        # Without trouble, what the courier reads must be there first.
        ready = self.keeper.idle or bool(trouble)
        if ready and (self.keeper.spooled or now >= self._heartbeat_at) and self._couriers.start(trouble):
            self._heartbeat_at = now + _HEARTBEAT_S * random.uniform(0.9, 1.1)  # noqa: S311
            self._courier_at, self._trouble_told = now, bool(trouble)

    def _disk_problem(self) -> str:
        if self.keeper.problem:
            return f"the spool cannot be written: {self.keeper.problem}"
        stuck = self.keeper.stuck_s()
        return f"the disk of the spool has not answered for {stuck:.0f} s" if stuck > _STUCK_S else ""

    def health(self) -> "tuple[bool, dict[str, object]]":
        """Whether the kernel log is read and findings are kept, and why not (K24)."""
        blind = f"blind: {self._blind}" if self._blind else ""
        deaf = f"deaf: {self._marker.problem}" if self._marker.problem else ""
        problems = [problem for problem in (blind, deaf, self._disk_problem(), self._couriers.problem) if problem]
        return not problems, {
            "ok": not problems,
            "reason": "; ".join(problems) or "reading the kernel log",
            "records_read": self._read,
            "last_record_age_s": round(time.monotonic() - self._last_read_at, 1),
            "spooled": self.keeper.spooled + self.keeper.waiting,
        }

    def metrics(self) -> str:
        """Prometheus text."""
        dropped = dict(self._spool.dropped)
        for verdict, number in self.keeper.dropped.items():
            dropped[verdict] = dropped.get(verdict, 0) + number
        return expose(
            Facts(
                read=self._read,
                lost=self._losses.counts,
                blind=bool(self._blind),
                deaf=bool(self._marker.problem),
                disk_problem=bool(self._disk_problem()),
                spooled=self.keeper.spooled + self.keeper.waiting,
                broken=self._spool.broken,
                dropped=dropped,
                last_read_age_s=time.monotonic() - self._last_read_at,
                courier_failures=self._couriers.failures,
                counts=self._findings.counts,
                conditions={kind: fault["reason"] for kind, fault in self._conditions.worst().items()},
            )
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: "list[str]") -> int:
    """``python -m detector.watch LOG FOLDER RULES HOST PORT SELF_TEST_S``; started by ``detector.main``."""
    log, folder, rules, host, port, self_test_s = arguments
    catalogue = Catalogue.load(rules)
    held = alone_in(folder)
    try:
        exporter = Exporter(host, int(port))
    except OSError as error:
        _say(f"NODEMEND_DETECTOR_ADDRESS {host}:{port} cannot be used ({error.strerror}): choose another.")
        return 78
    watch = Watch(log, folder, catalogue, exporter, Marker(log, float(self_test_s)), Couriers(folder), Counters())

    def stop(_number: int, _frame: object) -> None:
        watch.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    _say(f"Watching {log}; metrics and health on http://{host}:{exporter.port}")
    watch.run()
    if held is not None:
        os.close(held)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
