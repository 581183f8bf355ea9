"""The worker and the detector of the demo, as users run them, and the kernel log that the detector reads.

They are children on the embedded stack's leash: whatever happens to the demo, they go with it.
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client

from deploy.components import Component
from deploy.local.process import LOOPBACK, Process, answers, running
from deploy.local.scene import DemoScene
from deploy.local.stack import Stack

DEV_KMSG: Final = Path("/dev/kmsg")
_POLICY: Final = """\
# The demo's policy. Settle, soak and start-up times are seconds here and minutes in earnest.
default: {{mode: shadow}}
groups:
  {group}:
    mode: act
    drills: {drills}
    max_disrupted_share: 0.2
    checkpoints: {{gather: PT2S, resume: PT60S}}
    deadlines: {{settle: PT2S, soak: PT5S, checkpoint: PT30S, drain: PT60S, replacement: PT60S, verification: PT60S}}
"""
_KERNEL_ERROR: Final = 3
"""Priority of a record: facility kernel, level error."""
_HANDS_OVER_WITHIN_S: Final = 40.0
_REMEDY: Final = "Run the demo again; if it stays so, please report it with these lines."


@dataclass(frozen=True)
class Nodemend:
    """The two processes."""

    worker: Process
    detector: Process

    def trouble(self) -> str:
        """The end of the log of each that has died; empty while both run."""
        dead = [process for process in (self.worker, self.detector) if not process.alive]
        return "\n".join(f"{process.name} has ended. The end of its log:\n{process.tail()}" for process in dead)

    def tails(self) -> str:
        """The end of both logs."""
        return "\n".join(f"{process.name}:\n{process.tail(6)}" for process in (self.worker, self.detector))


def policy_in_words(scene: DemoScene, *, real_kmsg: bool) -> str:
    """What the demo's policy says that one in earnest would not."""
    drill = (
        " The line is written by user space, which makes it a drill: here, drills are acted on." if real_kmsg else ""
    )
    return (
        f"Policy: {scene.group} may be repaired (mode act). Quiet time is 2 s, soak 5 s, and machines boot in seconds; "
        f"in earnest these are minutes.{drill}"
    )


@contextmanager
def running_nodemend(
    stack: Stack, scene: DemoScene, folder: Path, log: Path, records: Path, *, real_kmsg: bool
) -> Iterator[Nodemend]:
    """A worker, and the detector of the node that is going to fail, for the length of the block.

    Raises:
        StackError: one of them did not come up.
    """
    _boot_here(stack, scene)
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY.format(group=scene.group, drills="act" if real_kmsg else "shadow"))
    if real_kmsg:
        _skip_old_records(folder / "spool")
    else:
        log.touch()
    own = ("NODEMEND_", "TEMPORAL_", "AWS_", "NODE_NAME", "KUBE")
    # The user's own settings must not leak in: they are about another cluster.
    common = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    # Each as its own service account, with the rights that it has in earnest.
    worker = {
        **stack.environment_of(Component.WORKER),
        "NODEMEND_POLICY_FILE": str(policy),
        "NODEMEND_RECORD_DIR": str(records),
        "NODEMEND_METRICS_ADDRESS": "",
    }
    detector = {
        **stack.environment_of(Component.DETECTOR, scene.node),
        "NODE_NAME": scene.node,
        "NODEMEND_INSTANCE_ID": scene.instance_id,
        "NODEMEND_KMSG": str(log),
        "NODEMEND_SPOOL_DIR": str(folder / "spool"),
    }
    with ExitStack() as processes, ThreadPoolExecutor(max_workers=2) as starters:
        starting = [
            starters.submit(processes.enter_context, _process(name, setting, folder, common | environment))
            for name, setting, environment in (
                ("worker", "NODEMEND_HEALTH_ADDRESS", worker),
                ("detector", "NODEMEND_DETECTOR_ADDRESS", detector),
            )
        ]
        yield Nodemend(*(started.result() for started in starting))


def write_line(log: Path, line: str) -> None:
    """Write a line as the kernel would; into the real log, as user space may."""
    if log == DEV_KMSG:
        log.write_text(f"{line}\n")
        return
    with log.open("a") as handle:
        handle.write(f"{_KERNEL_ERROR},1,{time.monotonic_ns() // 1000},-;{line}\n")


def _process(name: str, setting: str, folder: Path, environment: Mapping[str, str]) -> AbstractContextManager[Process]:
    """One of our programs on a port of its own, which it is told by ``setting``; up once its health says so."""

    def command(ports: Sequence[int]) -> list[str]:
        # The port is known only here, so the program is told by way of env(1).
        return ["/usr/bin/env", f"{setting}={LOOPBACK}:{ports[0]}", sys.executable, "-m", name]

    return running(
        name,
        command,
        ports=1,
        ready=lambda ports: answers(f"http://{LOOPBACK}:{ports[0]}/healthz"),
        state_dir=folder,
        remedy=_REMEDY,
        grace=_HANDS_OVER_WITHIN_S,
        environment=environment,
    )


def _boot_here(stack: Stack, scene: DemoScene) -> None:
    """Let the Node say the boot that its detector reads: else all that a reboot ends would be over already."""
    with stack.kubernetes.connected() as api:
        core: Any = client.CoreV1Api(api)
        core.patch_node_status(scene.node, {"status": {"nodeInfo": {"bootID": _boot_id()}}})


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _skip_old_records(spool: Path) -> None:
    """What this machine's kernel said before the demo is not the demo's."""
    from detector.kmsg import Reader, Record
    from detector.spool import STATE, write_json

    reader = Reader(str(DEV_KMSG), None)
    newest = max((item.seq for item in reader.read() if isinstance(item, Record)), default=0)
    reader.close()
    spool.mkdir(parents=True, exist_ok=True)
    write_json(str(spool / STATE), {"boot_id": _boot_id(), "seq": newest})


def about(line: str, scene: DemoScene) -> str:
    """A line with the machine's own names in it, as the demo's machine would write it."""
    line = re.sub(r"instance-id=i-[0-9a-f]+", f"instance-id={scene.instance_id}", line)
    return re.sub(r"hostname=[\w.-]+", f"hostname={scene.node}", line)
