"""The policy, read from its file and read again when that changes. A broken edit never replaces a good policy."""

import logging
from pathlib import Path

import yaml
from pydantic import ValidationError

from contract.names import ExitCode
from contract.policy import Policy
from worker.errors import StartError

_log = logging.getLogger(__name__)


class PolicyFile:
    """What the owners of the fleet allow, as of now. Safe to call from several threads."""

    def __init__(self, path: Path | None) -> None:
        """Read it once.

        Raises:
            StartError: the file is missing or not a valid policy.
        """
        self._path = path
        self._policy = Policy()
        self._stamp: tuple[int, int] | None = None
        if path is None:
            return
        try:
            self._stamp = self._stat()
            self._policy = _load(path)
        except OSError as error:
            raise StartError(
                f"The policy file {path} cannot be read: {error.strerror}.",
                "Set NODEMEND_POLICY_FILE to a readable file, or unset it to touch nothing.",
                ExitCode.NO_INPUT,
            ) from error
        except (yaml.YAMLError, ValidationError) as error:
            raise StartError(_broken(path, error), "Mend the file and start again.", ExitCode.DATA) from error

    def __call__(self) -> Policy:
        """The policy; re-read where the file has changed."""
        if self._path is not None:
            try:
                stamp = self._stat()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._policy = _load(self._path)
                    _log.info("The policy was read again: version %s", self._policy.version)
            except (OSError, yaml.YAMLError, ValidationError) as error:
                _log.error("%s The policy before it (%s) holds on.", _broken(self._path, error), self._policy.version)
        return self._policy

    def _stat(self) -> tuple[int, int]:
        assert self._path is not None
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_ino


def _load(path: Path) -> Policy:
    return Policy.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})


def _broken(path: Path, error: Exception) -> str:
    detail = _fields(error) if isinstance(error, ValidationError) else str(error).replace("\n", " ")
    return f"The policy file {path} is not valid: {detail}."


def _fields(error: ValidationError) -> str:
    """Each wrong field with its value, in one sentence."""
    found = []
    for item in error.errors():
        value = "" if item["type"] == "missing" else f" (is {item['input']!r})"
        found.append(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}{value}")
    return "; ".join(found)
