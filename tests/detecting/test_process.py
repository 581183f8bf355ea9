"""The detector as a process: small, truthful about its health, quick to end, and clear about wrong settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detector.main import main
from detector.spool import read_entries
from tests.detecting.running import HBM, NOWHERE, ROOT, Detector, wait_until

pytestmark = pytest.mark.thorough


thorough = pytest.mark.thorough
"""Each of these waits for a process or two: left out of `make test-fast`."""


@pytest.fixture
def detector(tmp_path: Path) -> Detector:
    return Detector(tmp_path, NOWHERE)


def test_watch_imports_the_standard_library_alone() -> None:
    program = (
        "import sys; import detector.watch; "
        "ours = {n for n in sys.modules if n.split('.')[0] not in sys.stdlib_module_names and n != '__main__'}; "
        "print(sorted(n for n in ours if n.split('.')[0] != 'detector'), 'asyncio' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] False"


@thorough
def test_watch_stays_under_20_mib_after_many_lines_and_findings(detector: Detector) -> None:
    with detector.running():
        wait_until(detector.answers)
        for device in range(64):
            detector.write(*["usb 1-1: new high-speed USB device"] * 500, HBM.format(device=device) + " x" * 400)
        wait_until(lambda: detector.metric("nodemend_detector_records_read_total") == 64 * 501)
        assert detector.memory_mib() < 20


def test_finding_is_on_the_disk_and_in_the_metrics(detector: Detector) -> None:
    with detector.running():
        wait_until(detector.answers)
        detector.write("usb 1-1: new device", HBM.format(device=3))
        wait_until(lambda: read_entries(str(detector.spool))[0])
        (entry,) = read_entries(str(detector.spool))[0]
        assert entry["reason"] == "NeuronHasError_HBM_UNCORRECTABLE_ERROR"
        assert entry["context"] == ["usb 1-1: new device"]
        text = detector.get("/metrics")[1]
        assert 'problem_counter{reason="NeuronHasError_HBM_UNCORRECTABLE_ERROR"} 1' in text
        assert 'problem_gauge{type="NeuronHealth",reason="NeuronHasError_HBM_UNCORRECTABLE_ERROR"} 1' in text
        assert detector.get("/nothing")[0] == 404


@thorough
def test_k20_k24_health_is_that_of_the_reader_and_comes_back_with_it(detector: Detector) -> None:
    away = detector.kmsg.rename(detector.folder / "away")
    with detector.running():
        wait_until(detector.answers)
        status, body = detector.get("/healthz")
        assert status == 503
        assert "mount the host's /dev/kmsg" in json.loads(body)["reason"]
        assert detector.metric("nodemend_detector_blind") == 1
        wait_until(lambda: detector.state().get("worst", {}).get("KernelLogHealth"))
        away.rename(detector.kmsg)
        wait_until(lambda: detector.get("/healthz")[0] == 200)
        wait_until(lambda: not detector.state()["worst"])


@thorough
def test_health_fails_while_findings_cannot_be_kept(detector: Detector) -> None:
    with detector.running():
        wait_until(detector.answers)
        # As on a disk that is full or read-only: the file cannot be replaced.
        (detector.spool / "spool.jsonl").mkdir()
        detector.write(HBM.format(device=3))
        wait_until(lambda: detector.get("/healthz")[0] == 503)
        assert "spool cannot be written" in json.loads(detector.get("/healthz")[1])["reason"]
        (detector.spool / "spool.jsonl").rmdir()
        wait_until(lambda: detector.get("/healthz")[0] == 200)
        assert [entry["seq"] for entry in read_entries(str(detector.spool))[0]] == [1]


@thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk: needs root")
def test_full_and_read_only_disk_stop_no_reading(detector: Detector) -> None:
    detector.spool.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "spool", detector.spool], check=False)
    if mounted.returncode:
        pytest.skip("may not mount here")
    try:
        (detector.spool / "ballast").write_bytes(b"x" * 4096)
        with pytest.raises(OSError, match="No space"):
            (detector.spool / "more").write_bytes(b"x" * 1024 * 1024)
        with detector.running():
            wait_until(lambda: "Watching" in detector.log())
            detector.write(HBM.format(device=1))
            wait_until(lambda: "make room" in detector.log())
            subprocess.run(["mount", "-o", "remount,size=4m", detector.spool], check=True)
            wait_until(lambda: read_entries(str(detector.spool))[0])
            wait_until(lambda: detector.get("/healthz")[0] == 200)
            subprocess.run(["mount", "-o", "remount,ro", detector.spool], check=True)
            detector.write(HBM.format(device=2))
            wait_until(lambda: detector.get("/healthz")[0] == 503)
            assert "Read-only" in detector.get("/healthz")[1]
            assert detector.metric("nodemend_detector_records_read_total") == 2
            subprocess.run(["mount", "-o", "remount,rw", detector.spool], check=True)
            wait_until(lambda: len(read_entries(str(detector.spool))[0]) == 2)
        assert [entry["seq"] for entry in read_entries(str(detector.spool))[0]] == [1, 2]
    finally:
        subprocess.run(["umount", detector.spool], check=True)


@thorough
def test_sigterm_ends_both_processes_with_everything_on_the_disk(detector: Detector) -> None:
    detector.start()
    wait_until(detector.answers)
    detector.write(HBM.format(device=1))
    wait_until(lambda: "cannot be reached" in detector.log())
    assert detector.end() == 0
    assert detector.state()["seq"] == 1
    assert len(read_entries(str(detector.spool))[0]) == 1
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(detector.spool) not in left


@thorough
def test_second_detector_on_the_same_folder_waits(detector: Detector, tmp_path: Path) -> None:
    with detector.running():
        wait_until(detector.answers)
        other = Detector(tmp_path / "other", {**NOWHERE, "NODEMEND_SPOOL_DIR": str(detector.spool)})
        other.start()
        try:
            wait_until(lambda: "Another detector is at work" in other.log())
            assert other.process
            assert other.process.poll() is None
        finally:
            other.end(kill=True)


@thorough
@pytest.mark.parametrize(
    ("wrong", "code", "says"),
    [
        ({"NODEMEND_CLUSTER": ""}, 78, "NODEMEND_CLUSTER: must be set"),
        ({"NODEMEND_DETECTOR_ADDRESS": "here"}, 78, "NODEMEND_DETECTOR_ADDRESS: must be host:port"),
        ({"NODEMEND_DETECTOR_ADDRESS": "192.0.2.1:80"}, 78, "NODEMEND_DETECTOR_ADDRESS 192.0.2.1:80 cannot be used"),
        ({"NODEMEND_INSTANCE_ID": "mine"}, 78, "NODEMEND_INSTANCE_ID"),
        ({"NODEMEND_SPOOL_DIR": "/proc/nothing"}, 78, "NODEMEND_SPOOL_DIR"),
        ({"NODEMEND_SELF_TEST_S": "-1"}, 78, "NODEMEND_SELF_TEST_S"),
    ],
    ids=lambda value: str(value),
)
def test_wrong_setting_is_named_and_ends_with_its_code(
    detector: Detector, wrong: dict[str, str], code: int, says: str
) -> None:
    detector.start(**wrong)
    assert detector.process
    assert detector.process.wait(30) == code
    assert says in detector.log()
    assert "Traceback" not in detector.log()


@thorough
def test_bad_rule_ends_with_its_code_and_names_file_and_rule(detector: Detector, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "mine.yaml").write_text("rules: [{id: my-rule, pattern: '('}]")
    detector.start(NODEMEND_RULES_DIR=str(tmp_path / "rules"))
    assert detector.process
    assert detector.process.wait(30) == 65
    assert all(word in detector.log() for word in ("mine.yaml", "my-rule", "pattern"))


def test_help_tells_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in ("CLUSTER", "KMSG", "SPOOL_DIR", "RULES_DIR", "DETECTOR_ADDRESS", "INSTANCE_ID", "SELF_TEST_S"):
        assert f"NODEMEND_{name}" in text
    assert "NODE_NAME" in text
    assert main(["--nonsense"]) == 2


@thorough
@pytest.mark.kmsg
@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK | os.W_OK), reason="needs root and /dev/kmsg")
class TestOnTheRealLog:
    def test_line_of_user_space_is_a_drill_and_the_self_test_comes_back(self, tmp_path: Path) -> None:
        detector = Detector(tmp_path, NOWHERE)
        with detector.running(NODEMEND_KMSG="/dev/kmsg", NODEMEND_SELF_TEST_S="0.5"):
            wait_until(detector.answers)
            Path("/dev/kmsg").write_text(f"test NEURON_HW_ERR=DMA_ERROR test {tmp_path.name}\n")
            wait_until(lambda: [e for e in read_entries(str(detector.spool))[0] if e["kind"] == "finding"])
            found = [e for e in read_entries(str(detector.spool))[0] if e.get("rule") == "neuron-hardware-error"]
            assert all(entry["drill"] for entry in found)
            assert all(entry["facility"] == 1 for entry in found)
            read = detector.metric("nodemend_detector_records_read_total")
            wait_until(lambda: detector.metric("nodemend_detector_records_read_total") > read + 2)
            assert detector.get("/healthz")[0] == 200
            assert detector.metric("nodemend_detector_deaf") == 0

    def test_k6_restart_neither_replays_nor_skips(self, tmp_path: Path) -> None:
        detector = Detector(tmp_path, NOWHERE)
        with detector.running(NODEMEND_KMSG="/dev/kmsg"):
            wait_until(detector.answers)
            wait_until(lambda: detector.metric("nodemend_detector_records_read_total") > 0)
        read_before = detector.state()["seq"]
        Path("/dev/kmsg").write_text("nodemend test: while nobody read\n")
        with detector.running(NODEMEND_KMSG="/dev/kmsg"):
            wait_until(lambda: detector.state().get("seq", 0) > read_before)
            lost = detector.get("/metrics")[1]
            assert 'nodemend_detector_records_lost_total{reason="while_away"} 0' in lost
            assert 'nodemend_detector_records_lost_total{reason="before_first"} 0' in lost

    def test_k8_k22_each_fault_of_a_flood_before_the_start_is_found_and_each_record_accounted_for(
        self, tmp_path: Path
    ) -> None:
        """It waits in the ring when the detector starts: more than one round of reading."""
        faults = [f"CODE_{number}_{tmp_path.name.upper()}" for number in range(5)]
        for number in range(1000):
            text = f"NEURON_HW_ERR={faults[number // 200]} nd-id=1" if number % 200 == 199 else f"flood {number}"
            Path("/dev/kmsg").write_text(f"<6>nodemend test {text}\n")
        detector = Detector(tmp_path, NOWHERE)
        with detector.running(NODEMEND_KMSG="/dev/kmsg"):
            wait_until(lambda: all(any(fault in told for told in found(detector)) for fault in faults))
            assert detector.metric("nodemend_detector_records_read_total") >= 1000


def found(detector: Detector) -> list[str]:
    """What it has put on the disk."""
    return [str(entry) for entry in read_entries(str(detector.spool))[0] if entry["kind"] == "finding"]
