"""Jobs as people write them, some of them faulty: a program for ``exec``, a server for ``http``, manifests."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from activities.checkpoint import CheckpointActivity
from contract.acts import JobCheckpoint, RequestCheckpoints
from contract.fault import DataTrust
from contract.policy import CheckpointPolicy
from deploy.local.scene import add_pod, running_pods, wait_for
from tests.acting import Acting

NEURON = "aws.amazon.com/neuron"
HANGS, DIES = -1, -2
"""In place of an http status: it never answers; it ends while it is asked."""
PREFIX = "nodemend.io/checkpoint"

PROGRAM = '''\
"""A job's checkpoint program: saves in FOLDER, faulty in the way that it is told."""
import json, os, pathlib, sys, time
from datetime import UTC, datetime
folder, fault, verb = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with open(folder / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[3:]) + chr(10))
def manifest(step, nonce, size=4):
    (folder / f"{step}.bin").write_bytes(b"x" * 4)
    entry = {"nonce": nonce, "step": step, "uri": str(folder / f"{step}.bin"), "time": datetime.now(UTC).isoformat(),
             "files": [{"name": f"{step}.bin", "size": size}]}
    (folder / f"{step}.manifest.json").write_text(json.dumps(entry))
    return json.dumps({k: v for k, v in entry.items() if k != "files"})
if verb == "list":
    for path in sorted(folder.glob("*.manifest.json")):
        print(path.read_text())
    sys.exit()
nonce = sys.argv[4]
if fault == "twice":
    print(manifest(999, nonce))
    print(manifest(1000, nonce))
elif fault == "half":
    print(manifest(1000, nonce, size=4000))
elif fault == "lies":
    print(json.dumps({"nonce": nonce, "step": 1000, "uri": "x", "time": datetime.now(UTC).isoformat()}))
elif fault == "older":
    print(manifest(100, nonce))
elif fault == "dies":
    print("saving")
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
elif fault == "late":
    time.sleep(8)
    print(manifest(1000, nonce))
elif fault == "never":
    time.sleep(60)
else:
    print(manifest(1000, nonce))
'''


def program(folder: Path, fault: str = "") -> str:
    """A checkpoint program that saves in the folder. Returns the command to declare."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return json.dumps([sys.executable, str(path), str(folder), fault])


def calls(folder: Path) -> list[str]:
    """Verbs that the program was called with."""
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def manifest(step: int, *, minutes_ago: float = 0.0, nonce: str = "", **more: Any) -> str:
    """One manifest, whose files are nothing special."""
    moment = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return json.dumps({"nonce": nonce, "step": step, "uri": f"ckpt/{step}", "time": moment.isoformat(), **more})


def write_manifest(folder: Path, step: int, **more: Any) -> None:
    """A manifest in a folder, whole."""
    (folder / f"{step}.manifest.json").write_text(manifest(step, **more))


def declared(mode: str, **more: str) -> dict[str, str]:
    """Annotations."""
    return {PREFIX: mode, **{f"{PREFIX}-{key}": value for key, value in more.items()}}


def add_declaring(
    acting: Acting, node: str, namespace: str, annotations: dict[str, str], name: str = "p", **more: Any
) -> None:
    """A running pod that declares this."""
    add_pod(acting.stack, name, node=node, namespace=namespace, annotations=annotations, **more)
    wait_for(lambda: len(running_pods(acting.stack, name, namespace)) == 1, "the pod")


def ask(acting: Acting, node: str, *, seconds: float = 20.0, **changes: Any) -> JobCheckpoint:
    """Ask the one job on a node."""
    usual: dict[str, Any] = {
        "nonce": "nonce-1",
        "data": DataTrust.TRUSTED,
        "device_resource": NEURON,
        "evidence_since": datetime.now(UTC) - timedelta(minutes=5),
        "deadline": timedelta(seconds=seconds),
        "rules": CheckpointPolicy(),
    }
    argument = RequestCheckpoints(target=acting.claim(node), **{**usual, **changes})
    (job,) = acting.do(CheckpointActivity(acting.cluster, lambda _: None).request_checkpoints, argument).jobs
    assert isinstance(job, JobCheckpoint)
    return job


@dataclass
class JobServer:
    """A job that answers by http."""

    port: int
    answers: dict[str, tuple[int, str]]
    """By method: status, or how it fails to answer, and body, in which NONCE stands for the nonce that was sent."""
    calls: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def job_server(address: str, **answers: tuple[int, str]) -> Iterator[JobServer]:
    """Serve on an address that the API server's proxy may call: it refuses loopback ones."""
    job, over = JobServer(0, answers), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            job.calls.append((method, self.path))
            status, text = job.answers.get(method, (404, "no such verb"))
            if status == HANGS:
                over.wait()
            if status in (HANGS, DIES):
                self.close_connection = True
                return
            payload = text.replace("NONCE", json.loads(body)["nonce"] if body else "").encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def do_GET(self) -> None:
            self.answer("GET")

        def do_POST(self) -> None:
            self.answer("POST")

    with ThreadingHTTPServer((address, 0), Handler) as server:
        job.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield job
        finally:
            over.set()
            server.shutdown()
            serving.join()
