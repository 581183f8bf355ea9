"""Child processes of the embedded stack: on free loopback ports, logged to a file, ready or a clear error, and
never left behind.

Linux only: it reads /proc and relies on PR_SET_PDEATHSIG. Nothing here knows which program it runs.
"""

import contextlib
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.errors import StackError

LOOPBACK: Final = "127.0.0.1"
_PORTS: Final = range(20000, 32000)
"""Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes a port that was just chosen."""
_ATTEMPTS: Final = 5
_POLL: Final = 0.05
_GRACE: Final = 10.0
_FEWER_COLLECTIONS: Final = {"GOGC": "400"}
"""For programs in Go, nearly all of them here: their heaps are small, and collecting each time one has doubled (Go's
default, 100) took a quarter of the stack's CPU time. Your own GOGC counts."""

# PR_SET_PDEATHSIG fires when the thread that forked ends, so everything is forked by one thread, which lives as long
# as the interpreter.
_forker: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nodemend-forker")
_handed_out: Final[set[int]] = set()


class _PortTakenError(Exception):
    """Somebody else got the port between choosing it and using it."""


@dataclass(frozen=True)
class Process:
    """One running child. ``ports`` are those it was given, in the order in which its command asked for them."""

    name: str
    pid: int
    ports: tuple[int, ...]
    log: Path
    _child: "subprocess.Popen[bytes]"

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._child.poll() is None

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(line[:400] for line in text.splitlines()[-lines:])

    def stop(self, grace: float = _GRACE) -> None:
        """Ask it to end, and after ``grace`` seconds make it. What it left in its process group is killed too."""
        if self.alive:
            self._child.terminate()
            try:
                self._child.wait(grace)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


Command = Callable[[Sequence[int]], Sequence[str]]
"""From the ports it may use to the command line; the first item is an absolute path."""
Probe = Callable[[Sequence[int]], bool]
"""Whether the program that got these ports serves. Must return quickly, and may say no by raising OSError."""


@contextmanager
def running(
    name: str,
    command: Command,
    *,
    ports: int,
    ready: Probe,
    state_dir: Path,
    remedy: str,
    deadline: float = 60.0,
    grace: float = _GRACE,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """Run a program for the length of the block; the block starts when ``ready`` says yes.

    Args:
        name: what to call it in logs and errors.
        command: its command line.
        ports: how many loopback ports it needs.
        ready: asked again and again until it says yes.
        state_dir: its log goes to ``logs/<name>.log`` in there.
        remedy: what the reader of an error can do.
        deadline: seconds until it must be ready.
        grace: seconds it has to end by itself; 0 for what holds nothing that outlives it.
        environment: its whole environment; ours where None.

    Raises:
        StackError: it ended, or was not ready in time. The message holds the end of its log.
    """
    process = _start(name, command, ports, ready, state_dir, remedy, deadline, environment)
    try:
        yield process
    finally:
        process.stop(grace)


def answers(url: str, *, token: str | None = None, ca: Path | None = None, timeout: float = 2.0) -> bool:
    """Whether a GET of ``url`` is answered with 200. Proxies of the environment are not used: this is loopback."""
    context = ssl.create_default_context(cafile=str(ca)) if ca else None
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def free_ports(count: int) -> list[int]:
    """Loopback TCP ports that are free now and were not handed out by this process before.

    Free now is no promise: whoever uses them must try again where somebody else was faster, as ``running`` does.

    Raises:
        StackError: there are none.
    """
    chosen: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(chosen) == count:
            break
        if port not in _handed_out and _can_bind(port):
            _handed_out.add(port)
            chosen.append(port)
    if len(chosen) < count:
        raise StackError("No free TCP port on 127.0.0.1.", "Stop what holds ports 20000 to 32000.")
    return chosen


def _start(
    name: str,
    command: Command,
    ports: int,
    ready: Probe,
    state_dir: Path,
    remedy: str,
    deadline: float,
    environment: Mapping[str, str] | None,
) -> Process:
    for attempt in range(1, _ATTEMPTS + 1):
        chosen = free_ports(ports)
        process = _spawn(name, list(command(chosen)), chosen, state_dir, environment)
        try:
            _await_ready(process, ready, remedy, deadline)
        except _PortTakenError:
            process.stop(grace=0)
            if attempt == _ATTEMPTS:
                raise StackError(f"{name} found its ports taken {attempt} times in a row.", remedy) from None
        except BaseException:
            process.stop(grace=0)
            raise
        else:
            return process
    raise AssertionError("the loop returns or raises")


def leashed(command: list[str]) -> list[str]:
    """The command as one that the kernel ends with this process, however that ends. Its first item is a path."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")), str(os.getpid()), *command]


def _spawn(
    name: str, command: list[str], ports: list[int], state_dir: Path, environment: Mapping[str, str] | None
) -> Process:
    log = state_dir / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        child = _forker.submit(
            lambda: subprocess.Popen(
                leashed(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**_FEWER_COLLECTIONS, **(os.environ if environment is None else environment)},
                # Ctrl-C in a terminal goes to the whole foreground group: the owner stops its children in order.
                start_new_session=True,
            )
        ).result()
    return Process(name=name, pid=child.pid, ports=tuple(ports), log=log, _child=child)


def _await_ready(process: Process, ready: Probe, remedy: str, deadline: float) -> None:
    until = time.monotonic() + deadline
    while True:
        if not process.alive:
            if "address already in use" in process.tail().lower():
                raise _PortTakenError
            raise StackError(
                f"{process.name} ended with {process._child.returncode} before it was ready. "
                f"The end of {process.log}:\n{process.tail()}",
                remedy,
            )
        with contextlib.suppress(OSError):
            if ready(process.ports):
                # Without this, a stack that lost the race for a port would take the winner's answer for its own.
                if all(_listens(process.pid, port) for port in process.ports):
                    return
                if not all(_can_bind(port) or _listens(process.pid, port) for port in process.ports):
                    raise _PortTakenError
        if time.monotonic() > until:
            raise StackError(
                f"{process.name} was not ready after {deadline:.0f} s. The end of {process.log}:\n{process.tail()}",
                remedy,
            )
        time.sleep(_POLL)


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do, so that a connection in TIME_WAIT does not make a port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _listens(pid: int, port: int) -> bool:
    """Whether this very process listens on the port: /proc/net/tcp gives the socket, /proc/PID/fd its holder."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if str(descriptor.readlink()) in sockets:
                return True
    return False
