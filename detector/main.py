"""Start of the detector: ``python -m detector`` or ``nodemend detect``.

It checks settings and rules with pydantic, writes the compiled catalogue, and becomes watch by ``exec``, so that none
of that memory stays.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from pydantic import ValidationError

from contract.address import parse_address
from contract.names import ExitCode
from contract.payload_keys import FOLDER_SETTING, NAME_SETTING, KeyringError, load_keyring
from contract.wrong_settings import wrong_settings
from detector.catalogue import CatalogueError, compile_catalogue
from detector.settings import DetectorSettings
from detector.usage import tell_usage

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - tmpfs; mkdtemp makes a folder of our own in it
_MORE: Final = (
    ("POD_NAMESPACE", "none", "Namespace of the detector's Lease (downward API); without it there is none."),
    ("KUBECONFIG", "service account", "The Kubernetes API, where the detector runs outside a pod."),
    (FOLDER_SETTING, "none", "Folder of keys that close what Temporal keeps; the workers must have the same."),
    (NAME_SETTING, "the only one", "Which of them closes."),
    ("TEMPORAL_*", "localhost:7233", "As for every Temporal client: ADDRESS, NAMESPACE, API_KEY, TLS_*, PROFILE."),
)
"""Variables that others read."""


def main(argv: Sequence[str] | None = None) -> int:
    """Become watch. Returns only when that is not possible, with the exit code."""
    if argv:
        return tell_usage(argv, "python -m detector", "Watch this node's kernel log.", DetectorSettings, _MORE)
    try:
        settings = DetectorSettings()
        if settings.delivery == "temporal":
            load_keyring(os.environ)
        _become_watch(settings)
    except ValidationError as error:
        for problem in wrong_settings(error, DetectorSettings):
            _say(problem)
        return ExitCode.CONFIG
    except KeyringError as error:
        _say(str(error))
        return ExitCode.CONFIG
    except CatalogueError as error:
        _say(str(error))
        return ExitCode.DATA
    except OSError as error:
        _say(f"NODEMEND_SPOOL_DIR cannot be used ({error}): mount a writable folder of the host.")
        return ExitCode.CONFIG


def _become_watch(settings: DetectorSettings) -> NoReturn:
    settings.spool_dir.mkdir(parents=True, exist_ok=True)
    rules = settings.spool_dir / "rules.json"
    try:
        compile_catalogue(rules, settings.rules_dir)
    except OSError as error:
        # A disk that is full or read-only is a fault to report, not one to die of.
        _say(f"{rules} cannot be written ({error.strerror}): make room. Going on in memory.")
        rules = Path(tempfile.mkdtemp(prefix="nodemend-", dir=_MEMORY if _MEMORY.is_dir() else None)) / "rules.json"
        compile_catalogue(rules, settings.rules_dir)
    host, port = parse_address(settings.detector_address)
    environment = {
        **os.environ,
        "NODEMEND_CLUSTER": settings.cluster,
        "NODE_NAME": settings.node,
        "NODEMEND_DELIVERY": settings.delivery,
    }
    command = [sys.executable, "-m", "detector.watch", str(settings.kmsg), str(settings.spool_dir), str(rules)]
    arguments = [host, str(port), str(settings.self_test_s)]
    os.execve(sys.executable, [*command, *arguments], environment)  # noqa: S606 - becoming watch is the point


def _say(line: str) -> None:
    print(f"nodemend detect: {line}", file=sys.stderr)
