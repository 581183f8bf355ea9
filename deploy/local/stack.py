"""The whole embedded stack as one context manager: Temporal, Kubernetes, AWS and the fleet that moves them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from deploy.local.aws import Aws, running_aws
from deploy.local.build import Progress, ignore_progress
from deploy.local.fleet import Fleet
from deploy.local.kubernetes import Kubernetes, running_kubernetes
from deploy.local.temporal import Temporal, running_temporal

CLUSTER: Final = "local"

T = TypeVar("T")


@dataclass(frozen=True)
class Stack:
    """A running stack. All that it writes is in ``state_dir``."""

    state_dir: Path
    temporal: Temporal
    kubernetes: Kubernetes
    aws: Aws
    fleet: Fleet

    @property
    def exec_dir(self) -> Path:
        """Where commands run by ``exec`` start, and where the demo's jobs keep their checkpoints."""
        return self.state_dir / "exec"

    def environment(self) -> dict[str, str]:
        """What a process needs to work on this stack."""
        return {
            "TEMPORAL_ADDRESS": self.temporal.address,
            "TEMPORAL_NAMESPACE": self.temporal.namespace,
            "KUBECONFIG": str(self.kubernetes.kubeconfig),
            "NODEMEND_CLUSTER": CLUSTER,
            **self.aws.environment(),
        }


@contextmanager
def running_stack(state_dir: Path, *, progress: Progress = ignore_progress) -> Iterator[Stack]:
    """Run the stack for the length of the block; its parts start side by side.

    Raises:
        StackError: a part did not start. What had started is stopped again.
    """
    state_dir = state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, ThreadPoolExecutor(max_workers=3) as starters:

        def start(name: str, part: Callable[[], AbstractContextManager[T]]) -> T:
            value = stack.enter_context(part())
            progress(f"{name} is up.")
            return value

        temporal = starters.submit(start, "Temporal", lambda: running_temporal(state_dir))
        kubernetes = starters.submit(
            start, "Kubernetes", lambda: running_kubernetes(state_dir, exec_dir=state_dir / "exec")
        )
        aws = starters.submit(start, "AWS (moto)", lambda: running_aws(state_dir))
        # Waiting for all before asking any, so that a part which fails does not leave another half started.
        parts = [part.exception() for part in (temporal, kubernetes, aws)]
        for failure in parts:
            if failure:
                raise failure
        fleet = stack.enter_context(Fleet(kubernetes.result(), aws.result()))
        yield Stack(state_dir, temporal.result(), kubernetes.result(), aws.result(), fleet)
