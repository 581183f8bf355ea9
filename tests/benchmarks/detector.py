"""Figures of the detector under load, on the machine's own kernel log (root): memory, CPU, loss, time to disk.

Nothing is delivered: neither Temporal nor Kubernetes is there, so what is measured is watch alone. ``make bench
ONLY=detector PEER='node-problem-detector --config.system-log-monitor=…'`` has another agent read the same lines in the
same run, and measures its memory and CPU beside ours.
"""

import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from detector.spool import read_entries
from tests.benchmarks.figures import Figure, at_most, told
from tests.detecting.hostile import Judge, hostile_records, hostile_texts
from tests.detecting.running import NOWHERE, Detector, wait_until

KMSG: Final = "/dev/kmsg"
_READ: Final = "nodemend_detector_records_read_total"
_WRITER: Final = """
import os, sys, time
count, rate, every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
descriptor, begin = -1, time.monotonic()
for number in range(count):
    # The kernel lets a descriptor write ten lines in five seconds.
    if number % 10 == 0:
        if descriptor >= 0:
            os.close(descriptor)
        descriptor = os.open("/dev/kmsg", os.O_WRONLY)
    if every and number % every == 0:
        os.write(descriptor, b"<6>nodemend bench NEURON_HW_ERR=DMA_ERROR nd-id=1 %d\\n" % number)
    else:
        os.write(descriptor, b"<6>nodemend bench usb 1-1: new high-speed USB device %d using xhci_hcd\\n" % number)
    if rate and number % 20 == 19 and (ahead := begin + (number + 1) / rate - time.monotonic()) > 0:
        time.sleep(ahead)
"""


class Peer:
    """Another agent on the same log; nothing where none is given."""

    def __init__(self, command: str) -> None:
        self._command = shlex.split(command)
        self._process: psutil.Popen | None = None

    def __enter__(self) -> "Peer":
        if self._command:
            self._process = psutil.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        times = self._process.cpu_times() if self._process else None
        return times.user + times.system if times else 0.0

    def memory(self, figure: str) -> Iterator[Figure]:
        """Its memory, where there is one."""
        if self._process:
            yield told(figure, self._process.memory_info().rss / 1024**2, "MiB")


def measure(_stack: object, folder: Path, peer: str = "") -> Iterator[Figure]:
    """All figures; none where the kernel log cannot be written."""
    if not os.access(KMSG, os.R_OK | os.W_OK):
        return
    detector = Detector(folder / "load", {**NOWHERE, "NODEMEND_KMSG": KMSG})
    with detector.running(), Peer(peer) as beside:
        wait_until(detector.answers)
        wait_until(lambda: detector.metric(_READ) > 0)
        yield at_most("detector_rss_idle_mib", detector.memory_mib(), "MiB", 20.0)
        yield from beside.memory("peer_rss_idle_mib")
        for count, rate, every, limit in (
            (2_000, 100, 0, 13.0),
            (20_000, 5_000, 0, 1.9),
            (20_000, 5_000, 1_000, 1.9),
            (100_000, 15_000, 0, 1.9),
        ):
            peer_cpu = beside.cpu_s()
            cpu, lost = _load(detector, count, rate, every)
            peer_cpu = (beside.cpu_s() - peer_cpu) / count * 100_000
            name = f"{rate}_per_s" + ("_1_in_1000_matching" if every else "")
            yield at_most(f"detector_cpu_s_per_100000_lines_{name}", cpu, "s", limit, "the peer's worst is the goal")
            yield at_most(f"detector_lost_{name}", lost, "lines", 0)
            if peer:
                yield told(f"peer_cpu_s_per_100000_lines_{name}", peer_cpu, "s")
        _, lost = _load(detector, 60_000, 0, 0)
        yield at_most("detector_lost_of_burst_share", lost / 60_000, "", 0.97, "60,000 unpaced; every one counted")
        _load(detector, 1_000_000, 15_000, 0)
        yield at_most("detector_rss_after_1000000_lines_mib", detector.memory_mib(), "MiB", 20.0)
        yield from beside.memory("peer_rss_after_1000000_lines_mib")
    yield from _time_to_disk(folder)
    yield from _hostile()


def _load(detector: Detector, count: int, rate: int, every: int) -> tuple[float, float]:
    """CPU seconds per 100,000 lines, and lines lost."""
    cpu, read, lost = _cpu_s(detector), detector.metric(_READ), _lost(detector)
    subprocess.run([sys.executable, "-c", _WRITER, str(count), str(rate), str(every)], check=True)
    wait_until(lambda: detector.metric(_READ) - read + _lost(detector) - lost >= count, f"{count} are accounted for")
    return (_cpu_s(detector) - cpu) / count * 100_000, _lost(detector) - lost


def _lost(detector: Detector) -> float:
    return detector.metric('nodemend_detector_records_lost_total{reason="overrun"}')


def _cpu_s(detector: Detector) -> float:
    assert detector.process
    words = Path(f"/proc/{detector.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _time_to_disk(folder: Path) -> Iterator[Figure]:
    """From the line to the finding on the disk."""
    detector = Detector(folder / "disk", {**NOWHERE, "NODEMEND_KMSG": KMSG})
    times = []
    with detector.running():
        wait_until(detector.answers)
        wait_until(lambda: detector.metric(_READ) > 0)
        for number in range(100):
            written = time.monotonic()
            Path(KMSG).write_text(
                f"<6>nodemend bench {folder.name} NEURON_HW_ERR=CODE_{number % 40}_{number} nd-id=1\n"
            )
            before = len(read_entries(str(detector.spool))[0])
            while len(read_entries(str(detector.spool))[0]) == before and time.monotonic() - written < 1:
                time.sleep(0.001)
            times.append(time.monotonic() - written)
            if number == 39:
                break
    yield at_most("detector_line_to_disk_p50_s", statistics.median(times), "s", 0.1)
    yield at_most("detector_line_to_disk_max_s", max(times), "s", 1.0)


def _hostile() -> Iterator[Figure]:
    """A million hostile records, and whether a longer line costs more than its length."""
    judge, number, begin = Judge(), 1_000_000, time.process_time()
    batch: list[bytes] = []
    judged = 0
    for record in hostile_records(seed=2026, number=number):
        batch.append(record)
        if len(batch) == 500:
            judge.judge(batch)
            judged += len(batch)
            batch.clear()
    seconds = time.process_time() - begin
    yield told("detector_hostile_records_judged", judged, "records", f"{seconds:.0f} s of CPU; none raised or hung")
    worst = 0.0
    for text in hostile_texts(seed=1, number=500):
        short, long = (b"3,1,1,-;" + (text[:64] * times).replace(b"\n", b" ") + b"\n" for times in (8, 64))
        worst = max(worst, _least_s(judge, long) / max(_least_s(judge, short), 20e-6))
    yield at_most(
        "detector_growth_for_8_times_the_line", worst, "times", 24.0, "8 is linear, 64 quadratic; worst of 500"
    )


def _least_s(judge: Judge, record: bytes) -> float:
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        judge.judge([record])
        times.append(time.perf_counter() - begin)
    return min(times)
