"""Become another program that the kernel kills as soon as whoever started it is gone.

Run as a script (``python -I -S leash.py OWNER_PID PROGRAM ARGUMENT…``), so that the owner needs no ``preexec_fn``,
which is unsafe in a process with threads. Standard library alone; it replaces itself, so no extra process stays.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h. The setting survives execve (prctl(2)), and fires when the *thread* that forked ends."""


def main(owner: int, command: list[str]) -> None:
    """Tie this process to ``owner`` and become ``command``, whose first item is an absolute path."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The owner may have died before the line above: then nobody would ever send the signal.
    if os.getppid() != owner:
        sys.exit(os.EX_TEMPFAIL)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
