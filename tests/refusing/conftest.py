"""A worker on the stack that acts on the test's own group."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from deploy.local.scene import NodeGroup
from deploy.local.stack import Stack
from tests.harness import QUICK_POLICY, WorkerProcess, running_worker, write_policy

Works = Callable[..., WorkerProcess]


@pytest.fixture
def worker_for(local_stack: Stack, tmp_path: Path) -> Iterator[Works]:
    """Start a worker whose policy acts on a group (and on nodes of no group), with changes to the policy."""
    with ExitStack() as exits:

        def start(group: NodeGroup | None, environment: dict[str, str] | None = None, **changes: Any) -> WorkerProcess:
            rules = {**QUICK_POLICY, **changes}
            policy = write_policy(tmp_path / "policy.yaml", **({group.name: rules} if group else {}))
            if group is None:
                policy.write_text(policy.read_text().replace("mode: shadow", "mode: act"))
            return exits.enter_context(running_worker(local_stack, policy, tmp_path, **(environment or {})))

        yield start
