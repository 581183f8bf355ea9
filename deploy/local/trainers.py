"""The training process of a job of the embedded stack: it runs while all of the job's ranks do, as a gang's does.

KWOK runs no containers. So this plays them: when a rank goes, the process is killed, and what it had not saved is
lost; when all ranks run again, it resumes, from the step that the job's receipt names where later ones are suspect.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from kubernetes import client

from contract.names import RECEIPT_ANNOTATION
from deploy.jobs.nodemend_checkpoint import SUFFIX, CheckpointAgent
from deploy.local.process import leashed
from deploy.local.stack import Stack
from deploy.local.work import checkpoint_folder, running_pods

LOOK_EVERY_S: Final = 0.3
EVERY: Final = 100
"""Steps between two checkpoints of its own."""


class Trainer:
    """Keeps one job's training process as its pods are."""

    def __init__(self, stack: Stack, job: str, namespace: str, ranks: int) -> None:
        self.folder = checkpoint_folder(stack, f"{namespace}/{job}")
        self.resumed_at: list[int] = []
        """The step at which each start of the process took up."""
        self.lost: list[int] = []
        """Steps that were done and not saved when it was killed, each time."""
        self._stack, self._job, self._namespace, self._ranks = stack, job, namespace, ranks
        self._process: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"trainer of {job}", daemon=True)

    def start(self) -> None:
        """Watch the pods from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End it, and what it runs."""
        self._over.set()
        self._thread.join()
        self._kill()

    def has_saved(self) -> bool:
        """Whether there is a checkpoint to go back to."""
        return CheckpointAgent(self.folder).latest() is not None

    def at(self) -> int:
        """The step that the job says it is at."""
        with suppress(OSError, ValueError):
            return int(json.loads((self.folder / "standing.json").read_text())["at"])
        return -1

    def _keep(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            whole = len(running_pods(self._stack, self._job, self._namespace)) >= self._ranks
            if whole and self._process is None:
                self._resume()
            elif not whole and self._process is not None:
                self._kill()

    def _resume(self) -> None:
        agent = CheckpointAgent(self.folder)
        self._set_suspect_ones_aside(agent)
        self.resumed_at.append(agent.resume_step())
        command = [sys.executable, "-m", "deploy.local.training", "--dir", str(self.folder), "--every", str(EVERY)]
        self._process = subprocess.Popen(leashed(command), cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            newest = CheckpointAgent(self.folder).latest()
            self.lost.append(max(0, self.at() - (int(newest["step"]) if newest else 0)))

    def _set_suspect_ones_aside(self, agent: CheckpointAgent) -> None:
        with self._stack.kubernetes.connected() as api:
            batch: Any = client.BatchV1Api(api)
            job = batch.read_namespaced_job(self._job, self._namespace)
        receipt = json.loads((job.metadata.annotations or {}).get(RECEIPT_ANNOTATION, "{}"))
        if receipt.get("checkpoint") == "named" and receipt.get("resumed") is None:
            for manifest in agent.manifests():
                if manifest["step"] > receipt["step"]:
                    path = self.folder / f"step-{manifest['step']:012d}{SUFFIX}"
                    path.rename(path.with_suffix(".suspect"))


@contextmanager
def training(stack: Stack, job: str, *, namespace: str, ranks: int) -> Iterator[Trainer]:
    """A job's training process, for the length of the block."""
    trainer = Trainer(stack, job, namespace, ranks)
    trainer.start()
    try:
        yield trainer
    finally:
        trainer.stop()
