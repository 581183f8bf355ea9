"""A detector as users run it, as a process of its own, and what it left in Temporal and on its Node."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from contract.fault import FaultReport
from detector.spool import STATE

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
HBM = "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id={device} nc-id=0 action=TERMINATE_INSTANCE"
NOWHERE = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "KUBECONFIG": "/nonexistent", "NODEMEND_CLUSTER": "test"}


@dataclass
class Detector:
    """One detector's folder, log and settings; ``running`` gives it a process."""

    folder: Path
    environment: dict[str, str]
    written: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    kmsg: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kmsg = self.folder / "kmsg"
        self.kmsg.touch()

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    def write(self, *messages: str, priority: int = 3) -> None:
        with self.kmsg.open("a") as handle:
            for message in messages:
                self.written += 1
                handle.write(f"{priority},{self.written},{self.written},-;{message}\n")

    def start(self, **more: str) -> None:
        environment = {
            **os.environ,
            "NODE_NAME": "node-of-nobody",
            "NODEMEND_INSTANCE_ID": "i-0123456789abcdef0",
            "NODEMEND_KMSG": str(self.kmsg),
            "NODEMEND_SPOOL_DIR": str(self.spool),
            "NODEMEND_DETECTOR_ADDRESS": "127.0.0.1:0",
            **self.environment,
            **more,
        }
        environment.pop("PYTEST_CURRENT_TEST", None)
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "detector"], env=environment, cwd=ROOT, stderr=output, stdout=output
            )

    def end(self, *, kill: bool = False) -> int:
        assert self.process
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        return self.process.wait(30)

    @contextmanager
    def running(self, **more: str) -> Iterator["Detector"]:
        self.start(**more)
        try:
            yield self
        finally:
            self.end()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def state(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.spool / STATE).read_text())
            return found
        return {}

    def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.state()['port']}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        line = next(line for line in self.get("/metrics")[1].splitlines() if line.startswith(f"{name} "))
        return float(line.rpartition(" ")[2])

    def answers(self) -> bool:
        with suppress(OSError, KeyError):
            return bool(self.get("/healthz")[0])
        return False

    def memory_mib(self) -> float:
        assert self.process
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def wait_until(true: Callable[[], Any], what: str = "it is so") -> None:
    """Look until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


async def reports_in(address: str, namespace: str, workflow_id: str) -> list[FaultReport]:
    """The reports that Temporal has for an incident, in order; none while it does not exist."""
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    found: list[FaultReport] = []
    with suppress(RPCError):
        history = await client.get_workflow_handle(workflow_id).fetch_history()
        for event in history.events:
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                signal = event.workflow_execution_signaled_event_attributes
                found += await pydantic_data_converter.decode(signal.input.payloads, [FaultReport])
    return found
