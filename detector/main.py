"""Start of the detector: ``python -m detector`` or ``nodemend detect``.

It checks settings and rules with pydantic, writes the compiled catalogue, and becomes watch by ``exec``, so that none
of that memory stays.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pydantic import ValidationError

from contract.names import ExitCode
from detector.catalogue import CatalogueError, compile_catalogue
from detector.settings import DetectorSettings


def main(_argv: Sequence[str] | None = None) -> int:
    """Become watch. Returns only when that is not possible, with the exit code."""
    try:
        settings = DetectorSettings()
        _become_watch(settings)
    except ValidationError as error:
        for problem in error.errors():
            name = str(problem["loc"][0]).upper()
            name = name if name == "NODE_NAME" else f"NODEMEND_{name}"
            value = "" if problem["type"] == "missing" else f" (is {problem['input']!r})"
            _say(f"{name}: {problem['msg']}{value}")
        return ExitCode.CONFIG
    except CatalogueError as error:
        _say(str(error))
        return ExitCode.DATA
    except OSError as error:
        _say(f"NODEMEND_SPOOL_DIR cannot be used ({error}): mount a writable folder of the host.")
        return ExitCode.CONFIG


def _become_watch(settings: DetectorSettings) -> NoReturn:
    rules = settings.spool_dir / "rules.json"
    settings.spool_dir.mkdir(parents=True, exist_ok=True)
    compile_catalogue(rules, settings.rules_dir)
    host, _, port = settings.detector_address.rpartition(":")
    environment = {**os.environ, "NODEMEND_CLUSTER": settings.cluster, "NODE_NAME": settings.node}
    command = [sys.executable, "-m", "detector.watch", str(settings.kmsg), str(settings.spool_dir), str(rules), host]
    os.execve(sys.executable, [*command, port], environment)  # noqa: S606 - becoming watch is the point


def _say(line: str) -> None:
    print(f"nodemend detect: {line}", file=sys.stderr)
