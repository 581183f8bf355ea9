"""The embedded stack kept running by a process of its own, for ``nodemend local up``.

``python -P -m deploy.local.daemon FOLDER`` is that process. The others are functions with which a command starts it,
finds it and ends it. Who holds the folder's lock runs the stack: no process is ever signalled on the word of a file.
"""

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deploy.local.build import Progress, cache_root, ignore_progress
from deploy.local.errors import StackError
from deploy.local.process import answers
from deploy.local.scene import create_demo_scene
from deploy.local.stack import is_locked, running_stack

_FACTS: Final = "stack.json"
_LOG: Final = "daemon.log"
_START_S: Final = 180.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.1


@dataclass(frozen=True)
class Running:
    """A stack that a daemon runs."""

    pid: int
    state_dir: str
    started_at: str
    """ISO 8601, UTC."""
    ui_url: str
    """Temporal's UI."""
    kubernetes_url: str
    environment: dict[str, str]
    """What a process needs to work on it."""
    scene: dict[str, object] | None = None
    """The demo's cluster, where it was asked for."""

    def parts(self) -> dict[str, bool]:
        """Which parts answer now."""
        ca = Path(self.state_dir, "kubernetes", "certificates", "apiserver.crt")
        return {
            "temporal": answers(self.ui_url),
            # The anonymous may ask for its health, by Kubernetes' own default roles.
            "kubernetes": answers(f"{self.kubernetes_url}/livez", ca=ca),
            "aws": answers(f"{self.environment['AWS_ENDPOINT_URL']}/moto-api/data.json"),
        }


def default_state_dir() -> Path:
    """The folder of the stack that is meant when nobody names one."""
    return cache_root() / "stack"


def find(state_dir: Path) -> Running | None:
    """The stack that a daemon runs in this folder, once it is up; None when there is none."""
    # The file first: looking at the lock takes it for a moment, which must not stop a daemon that is just starting.
    try:
        running = Running(**json.loads((state_dir / _FACTS).read_text()))
    except FileNotFoundError:
        return None
    return running if is_locked(state_dir) else None


def start(state_dir: Path, *, scene: bool = False, progress: Progress = ignore_progress) -> Running:
    """Start a daemon and wait for its stack. Where one runs already, that is returned.

    Args:
        state_dir: folder of the stack; what an earlier one left there goes.
        scene: whether to put the demo's cluster and its work on it.
        progress: told each part that is up.

    Raises:
        StackError: it did not come up; the daemon's own words are in the message.
    """
    state_dir = state_dir.absolute()
    if running := find(state_dir):
        progress("It runs already.")
        return running
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    (state_dir / _FACTS).unlink(missing_ok=True)
    log = state_dir / _LOG
    pid = _spawn(state_dir, log, scene=scene)
    told = 0
    try:
        until = time.monotonic() + _START_S
        while True:
            # Asked before the log is read, so that a daemon that has just ended has had its last word.
            ended, _ = os.waitpid(pid, os.WNOHANG)
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            for line in lines[told:]:
                progress(line)
            told = len(lines)
            if running := find(state_dir):
                return running
            if ended:
                raise StackError("\n".join(lines[-15:]) or "The daemon ended without a word.", f"Its log is {log}.")
            if time.monotonic() > until:
                raise StackError(f"The stack was not up after {_START_S:.0f} s.", f"Its log is {log}.")
            time.sleep(_POLL_S)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        raise


def _spawn(state_dir: Path, log: Path, *, scene: bool) -> int:
    log.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "deploy.local.daemon", str(state_dir), *(["--scene"] if scene else [])]
    # Not subprocess: its Popen wants its child waited for, and this one outlives us.
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def stop(state_dir: Path) -> bool:
    """End the daemon of this folder and its stack. Returns whether there was one.

    Raises:
        StackError: it did not end in time.
    """
    running = find(state_dir.absolute())
    if running is None:
        return False
    os.kill(running.pid, signal.SIGTERM)
    until = time.monotonic() + _STOP_S
    while is_locked(state_dir.absolute()):
        if time.monotonic() > until:
            raise StackError(
                f"The stack in {state_dir} did not end within {_STOP_S:.0f} s.",
                f"End process {running.pid} with SIGKILL: the kernel then ends all of its parts.",
            )
        time.sleep(_POLL_S)
    return True


def main() -> int:
    """Be the daemon until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--scene", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    # As an exception, so that a stack that is still starting is taken down in order too.
    signal.signal(signal.SIGTERM, _leave)
    try:
        _serve(arguments.state_dir, scene=arguments.scene, progress=lambda line: print(line, flush=True))
    except StackError as error:
        print(error, flush=True)
        return error.exit_code
    except SystemExit:
        return os.EX_OK
    return os.EX_OK


def _serve(state_dir: Path, *, scene: bool, progress: Callable[[str], None]) -> None:
    with running_stack(state_dir, progress=progress) as stack:
        made = dataclasses.asdict(create_demo_scene(stack)) if scene else None
        running = Running(
            pid=os.getpid(),
            state_dir=str(stack.state_dir),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            ui_url=stack.temporal.ui_url,
            kubernetes_url=stack.kubernetes.url,
            environment=stack.environment(),
            scene=made,
        )
        facts = stack.state_dir / _FACTS
        whole = facts.with_suffix(".tmp")
        whole.write_text(json.dumps(dataclasses.asdict(running), indent=2))
        whole.replace(facts)
        try:
            while True:
                signal.pause()
        finally:
            facts.unlink()


def _leave(_number: int, _frame: object) -> None:
    # Only once: a second SIGTERM must not interrupt the tidying up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(os.EX_OK)


if __name__ == "__main__":
    sys.exit(main())
