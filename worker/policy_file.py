"""The policy, read from its file and read again when that changes. A broken edit never replaces a good policy."""

import asyncio
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from temporalio.common import MetricMeter

from contract.names import ExitCode
from contract.policy import Policy
from worker.errors import StartError
from worker.policy_document import judged

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 5.0


class _Stamp(NamedTuple):
    """What changes when a file is written or, as the kubelet does with a ConfigMap, another one is put in its place."""

    written_ns: int
    inode: int
    size: int


class PolicyFile:
    """What the owners of the fleet allow, as of now. Safe to call from several threads."""

    def __init__(self, path: Path | None) -> None:
        """Read it once.

        Raises:
            StartError: the file is missing or not a valid policy.
        """
        self._path = path
        self._policy = Policy()
        self._stamp: _Stamp | None = None
        self._lock = threading.Lock()
        self.read_at = datetime.now(UTC)
        """When the policy that holds was read."""
        self.refused = ""
        """Why the file, as it is now, does not hold; empty where it does."""
        if path is None:
            return
        try:
            self._look(path)
        except OSError as error:
            raise StartError(
                f"The policy file {path} cannot be read: {error.strerror}.",
                "Set NODEMEND_POLICY_FILE to a readable file, or unset it to touch nothing.",
                ExitCode.NO_INPUT,
            ) from error
        if self.refused:
            raise StartError(self.refused, "Mend the file and start again.", ExitCode.DATA)

    def __call__(self) -> Policy:
        """The policy; re-read where the file has changed."""
        if self._path is not None:
            with self._lock:
                before = self.refused
                try:
                    if self._look(self._path) and not self.refused:
                        _log.info("The policy was read again: version %s", self._policy.version)
                except OSError as error:
                    # It may be on its way from one place to another.
                    self._stamp = None
                    self.refused = f"The policy file {self._path} cannot be read: {error.strerror}."
                if self.refused and self.refused != before:
                    _log.error("%s The policy before it (%s) holds on.", self.refused, self._policy.version)
        return self._policy

    def _look(self, path: Path) -> bool:
        """Whether the file was another one."""
        stat = path.stat()
        stamp = _Stamp(stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if stamp == self._stamp:
            return False
        policy, wrong = judged(path.read_bytes())
        self._stamp = stamp
        if policy is None:
            lines = "; ".join(f"line {line}: {what}" for line, what in wrong)
            self.refused = f"The policy file {path} is not valid: {lines}."
        else:
            self._policy, self.read_at, self.refused = policy, datetime.now(UTC), ""
        return True


async def watch_policy(policy: PolicyFile, meter: MetricMeter) -> None:
    """Take a change and tell how it stands, though no act asks. Runs until cancelled."""
    refused = meter.create_gauge("nodemend_policy_refused", "1 while the policy file does not hold")
    read = meter.create_gauge("nodemend_policy_timestamp_seconds", "When the policy that holds was read")
    while True:
        await asyncio.to_thread(policy)
        refused.set(int(bool(policy.refused)))
        read.set(int(policy.read_at.timestamp()))
        await asyncio.sleep(_LOOK_EVERY_S)
