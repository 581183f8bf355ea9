"""Watch: the process that reads the kernel log for as long as the node lives. Small, and stopped by no network.

It reads, counts, matches and spools; a courier that it spawns talks to Temporal and Kubernetes. Standard library
alone, at most 20 MB. The rules of the correctness reference that it keeps are named K1 to K27 in ``tests/detecting``.
"""

import os
import random
import select
import signal
import sys
import time
from typing import Any, Final

from detector.exporter import Exporter, render
from detector.findings import Findings, iso
from detector.kmsg import BlindError, Lost, Reader, Record
from detector.rules import Catalogue
from detector.spool import STATE, Spool, read_json, write_json

_TICK_S: Final = 1.0
_FILE_TICK_S: Final = 0.1
"""A regular file wakes nobody when it grows."""
_SAVE_EVERY_S: Final = 5.0
_HEARTBEAT_S: Final = 240.0
"""Under the five minutes after which consumers call a condition stale (C5)."""
_LOSS_EVERY_S: Final = 10.0
_RETRY_CAP_S: Final = 60.0
_DRILL_ENDS_S: Final = 600.0
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class Watch:
    """The loop and what it knows."""

    def __init__(self, log: str, folder: str, catalogue: Catalogue, exporter: Exporter) -> None:
        """Take up where the last one stopped.

        Raises:
            OSError: the folder cannot be used at all.
        """
        self._log = log
        self._catalogue = catalogue
        self._exporter = exporter
        self.spool = Spool(folder)
        self._state_path = os.path.join(folder, STATE)  # noqa: PTH118
        self._boot_id = _boot_id()
        state = read_json(self._state_path)
        same_boot = state.get("boot_id") == self._boot_id
        self._cursor: int | None = state.get("seq") if same_boot else None
        self._findings = Findings(state.get("findings") if same_boot else None)
        self._conditions: dict[str, dict[str, Any]] = {
            kind: condition
            for kind, condition in state.get("conditions", {}).items()
            if same_boot or condition.get("evidence_end") != "boot"
        }
        self._reader: Reader | None = None
        self._blind = "not opened yet"
        self._open_at, self._open_wait = 0.0, 1.0
        self._pending: list[tuple[str, dict[str, Any]]] = []
        """Entries that the disk did not take yet."""
        self._spool_problem = ""
        self._lost: dict[str, int] = {}
        self._untold_loss: dict[str, int] = {}
        self._read = 0
        self._last_read_at = time.monotonic()
        self._saved_at, self._dirty = 0.0, True
        self._loss_told_at = 0.0
        self._courier = 0
        self._courier_at, self._courier_wait = 0.0, 1.0
        self._heartbeat_at = 0.0
        self.stopping = False

    def run(self) -> None:
        """Watch until told to stop."""
        while not self.stopping:
            self.turn()
        self._save(force=True)

    def turn(self) -> None:
        """One round: wait for something, see to everything that is due."""
        now = time.monotonic()
        if self._reader is None and now >= self._open_at:
            self._open(now)
        self._wait()
        if self._reader is not None:
            self._read_all()
        wall = time.time()
        for report in self._findings.due(wall):
            self._tell("finding", report)
        self._tell_loss()
        self._end_drills(wall)
        self._flush()
        self._save()
        self._see_to_courier()

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._exporter.descriptor, select.POLLIN)
        tick = _TICK_S
        if self._reader is not None and self._reader.is_device:
            poll.register(self._reader.descriptor, select.POLLIN | select.POLLPRI)
        elif self._reader is not None:
            tick = _FILE_TICK_S
        if self._courier:
            tick = min(tick, 0.2)
        for descriptor, _ in poll.poll(tick * 1000):
            if descriptor == self._exporter.descriptor:
                self._exporter.serve(self.health, self.metrics)

    def _open(self, now: float) -> None:
        try:
            self._reader = Reader(self._log, self._cursor)
            self._blind, self._open_wait = "", 1.0
        except BlindError as error:
            if self._blind != error.reason:
                _say(f"The kernel log cannot be read: {error.reason}. Trying again.")
            self._blind = error.reason
            self._open_at = now + self._open_wait * random.uniform(0.5, 1.0)  # noqa: S311
            self._open_wait = min(self._open_wait * 2, _RETRY_CAP_S)

    def _read_all(self) -> None:
        assert self._reader is not None
        try:
            for item in self._reader.read():
                if isinstance(item, Lost):
                    self._lost[item.reason] = self._lost.get(item.reason, 0) + item.records
                    self._untold_loss[item.reason] = self._untold_loss.get(item.reason, 0) + item.records
                else:
                    self._take(item)
        except BlindError as error:
            _say(f"{error.reason}. Opening it again.")
            self._blind = error.reason
            self._reader.close()
            self._reader, self._open_at = None, time.monotonic() + 1.0

    def _take(self, record: Record) -> None:
        self._read += 1
        self._last_read_at = time.monotonic()
        match = self._catalogue.match(record.message) if not record.fragment else None
        if match is not None and match.rule.verdict != "benign":
            report = self._findings.take(record, match, time.time())
            if report is not None:
                self._tell("finding", report)
        self._findings.remember(record)
        self._cursor = record.seq
        self._dirty = True

    def _tell(self, kind: str, content: "dict[str, Any]") -> None:
        if kind == "finding" and content["verdict"] in ("hardware", "repairable", "ambiguous"):
            self._conditions[content["condition_type"]] = {
                "reason": content["reason"],
                "message": f"{content['message'][:700]} (boot {self._boot_id}, record {content['seq']})",
                "since": content["first_seen"],
                "evidence_end": content["evidence_end"],
                "drill_seen": time.time() if content["drill"] else None,
            }
        self._pending.append((kind, {**content, "boot_id": self._boot_id}))
        self._dirty = True
        self._flush()

    def _flush(self) -> None:
        try:
            while self._pending:
                self.spool.append(*self._pending[0])
                self._pending.pop(0)
            self._spool_problem = ""
        except OSError as error:
            if not self._spool_problem:
                _say(f"The spool {self.spool.folder} cannot be written ({error.strerror}): make room. Findings wait.")
            self._spool_problem = error.strerror or "unknown"

    def _tell_loss(self) -> None:
        now = time.monotonic()
        if self._untold_loss and now - self._loss_told_at >= _LOSS_EVERY_S:
            self._loss_told_at = now
            lost, self._untold_loss = self._untold_loss, {}
            self._tell("loss", {"records": lost, "seq": self._cursor or 0, "seen": iso(time.time())})

    def _end_drills(self, wall: float) -> None:
        ended = [
            kind
            for kind, condition in self._conditions.items()
            if condition.get("drill_seen") is not None and wall - condition["drill_seen"] > _DRILL_ENDS_S
        ]
        for kind in ended:
            del self._conditions[kind]
            self._dirty, self._heartbeat_at = True, 0.0

    def _save(self, *, force: bool = False) -> None:
        """Keep the cursor. Never past a finding that is not on the disk yet."""
        now = time.monotonic()
        due = force or now - self._saved_at >= _SAVE_EVERY_S or not self.spool.empty
        if not self._dirty or self._pending or not due:
            return
        try:
            write_json(
                self._state_path,
                {
                    "boot_id": self._boot_id,
                    "seq": self._cursor,
                    "findings": self._findings.known(),
                    "conditions": self._conditions,
                    "condition_types": sorted({rule.condition_type for rule in self._catalogue.rules}),
                    "port": self._exporter.port,
                },
            )
            self._dirty, self._saved_at = False, now
        except OSError as error:
            self._spool_problem = error.strerror or "unknown"

    def _see_to_courier(self) -> None:
        now = time.monotonic()
        if self._courier:
            pid, status = os.waitpid(self._courier, os.WNOHANG)
            if not pid:
                return
            self._courier = 0
            try:
                self.spool.collect()
            except OSError as error:
                self._spool_problem = error.strerror or "unknown"
            if status == 0:
                self._courier_wait, self._courier_at = 1.0, now
            else:
                # It retries by itself; that it ended all the same must not become a hot loop.
                self._courier_at = now + self._courier_wait * random.uniform(0.5, 1.0)  # noqa: S311
                self._courier_wait = min(self._courier_wait * 2, _RETRY_CAP_S)
        if now >= self._courier_at and (not self.spool.empty or now >= self._heartbeat_at):
            self._heartbeat_at = now + _HEARTBEAT_S * random.uniform(0.9, 1.1)  # noqa: S311
            command = [sys.executable, "-m", "detector.courier", self.spool.folder]
            self._courier = os.posix_spawn(sys.executable, command, os.environ)

    def stop_courier(self) -> None:
        """End the courier with watch; what it had not delivered stays in the spool."""
        if self._courier:
            os.kill(self._courier, signal.SIGTERM)
            os.waitpid(self._courier, 0)
            self._courier = 0

    def health(self) -> "tuple[bool, dict[str, object]]":
        """Whether the kernel log is read and findings are kept, and why not."""
        problems = []
        if self._blind:
            problems.append(f"blind: {self._blind}")
        if self._spool_problem:
            problems.append(f"the spool cannot be written: {self._spool_problem}")
        return not problems, {
            "ok": not problems,
            "reason": "; ".join(problems) or "reading the kernel log",
            "records_read": self._read,
            "last_record_age_s": round(time.monotonic() - self._last_read_at, 1),
            "spooled": len(self.spool.entries) + len(self._pending),
        }

    def metrics(self) -> str:
        """Prometheus metrics. ``problem_counter`` and ``problem_gauge`` are the node problem detector's own names."""
        counter, gauge = "counter", "gauge"
        samples: list[tuple[str, str, str, dict[str, str], float]] = [
            ("nodemend_detector_records_read_total", counter, "Kernel records read.", {}, self._read),
            ("nodemend_detector_blind", gauge, "1 while the kernel log cannot be read.", {}, bool(self._blind)),
            (
                "nodemend_detector_spool_entries",
                gauge,
                "Findings not delivered yet.",
                {},
                len(self.spool.entries) + len(self._pending),
            ),
            ("nodemend_detector_spool_broken_total", counter, "Spool lines that a crash tore.", {}, self.spool.broken),
        ]
        for reason in ("overrun", "too_long", "malformed", "while_away"):
            samples.append(
                (
                    "nodemend_detector_records_lost_total",
                    counter,
                    "Kernel records that could not be read.",
                    {"reason": reason},
                    self._lost.get(reason, 0),
                )
            )
        for verdict, number in sorted(self.spool.dropped.items()):
            samples.append(
                (
                    "nodemend_detector_spool_dropped_total",
                    counter,
                    "Entries dropped because the spool was full.",
                    {"verdict": verdict},
                    number,
                )
            )
        for reason, number in sorted(self._findings.counts.items()):
            samples.append(
                ("problem_counter", counter, "Number of times a problem has occurred.", {"reason": reason}, number)
            )
        for kind, condition in sorted(self._conditions.items()):
            samples.append(
                (
                    "problem_gauge",
                    gauge,
                    "Whether a problem affects the node.",
                    {"type": kind, "reason": condition["reason"]},
                    1,
                )
            )
        return render(samples)


def _boot_id() -> str:
    with open(_BOOT_ID, encoding="ascii") as handle:  # noqa: PTH123
        return handle.read().strip()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: "list[str]") -> int:
    """``python -m detector.watch LOG FOLDER RULES HOST PORT``; started by ``detector.main``."""
    log, folder, rules, host, port = arguments
    exporter = Exporter(host, int(port))
    watch = Watch(log, folder, Catalogue.load(rules), exporter)

    def stop(_number: int, _frame: object) -> None:
        watch.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    _say(f"Watching {log}; metrics and health on http://{host}:{exporter.port}")
    try:
        watch.run()
    finally:
        watch.stop_courier()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
