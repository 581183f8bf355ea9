"""`nodemend doctor` on a live stack, as a script runs it."""

import json
from pathlib import Path
from typing import Any

from deploy.components import NAMESPACE
from deploy.local.stack import Stack
from tests.operating.command import nodemend


def examined(
    stack: Stack, policy: Path | None, namespace: str = NAMESPACE, **environment: str
) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Its exit code, and what it finds by what it is about."""
    done = nodemend(
        *("doctor", *(("--policy", str(policy)) if policy else ()), "--namespace", namespace, "--output", "json"),
        **{**stack.environment(), **environment},
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["about"], []).append(one)
    return done.returncode, found
