"""Hostile records: no crash, no hang, none lost unseen. (`make bench` plays a million, and times long lines.)"""

import subprocess
import sys
from pathlib import Path

import pytest

from detector.kmsg import Lost, Reader
from tests.detecting.hostile import Judge, hostile_records
from tests.detecting.running import ROOT

RECORDS = 50_000
CHUNK = 10_000


@pytest.mark.thorough
def test_hostile_records_are_each_read_or_counted_and_judged(tmp_path: Path) -> None:
    judge, read, lost, found = Judge(), 0, 0, 0
    log = tmp_path / "kmsg"
    for seed in range(RECORDS // CHUNK):
        records = list(hostile_records(seed, CHUNK))
        log.write_bytes(b"".join(records))
        reader = Reader(str(log), None)
        try:
            more = True
            while more:
                batch = reader.batch()
                read += len(batch.raws)
                lost += sum(one.records for one in batch.lost)
                found += judge.judge(batch.raws) if batch.raws else 0
                more = batch.more
        finally:
            reader.close()
    assert read + lost == RECORDS
    assert read > 0.8 * RECORDS
    # The rules were reached: this is no test of the header's parser alone.
    assert found > 0


def test_malformed_records_are_counted_one_by_one(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    records = [b"no record\n", b"3,1,1,-;good\n", b"3,x,1,-;bad\n", b"3,2,2,-;good\n"]
    log.write_bytes(b"".join(records))
    seen = list(Reader(str(log), None).read())
    assert sum(one.records for one in seen if isinstance(one, Lost)) == 2
    assert sum(not isinstance(one, Lost) for one in seen) == 2


@pytest.mark.thorough
def test_fuzzer_finds_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.detecting.fuzz",
        "-runs=20000",
        "-timeout=5",
        f"-artifact_prefix={tmp_path}/",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Done 20000 runs" in ended.stderr
