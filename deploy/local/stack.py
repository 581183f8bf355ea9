"""The whole embedded stack as one context manager: Temporal, Kubernetes, AWS and the fleet that moves them.

It is made for one user's own machine: everything listens on loopback only, but etcd, moto and KWOK ask nobody for a
password there, so whoever else has an account on the machine could reach them.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from deploy.components import NAMESPACE, RBAC, Component
from deploy.local import rights
from deploy.local.aws import Aws, running_aws
from deploy.local.build import Progress, ignore_progress, locate
from deploy.local.errors import StackError
from deploy.local.fleet import Fleet
from deploy.local.kubernetes import LEASE_S, Kubernetes, running_kubernetes
from deploy.local.temporal import Temporal, running_temporal

CLUSTER: Final = "local"
_LOCK: Final = "lock"

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
        """What a process needs to work on this stack, as an administrator of its cluster."""
        return {
            "TEMPORAL_ADDRESS": self.temporal.address,
            "TEMPORAL_NAMESPACE": self.temporal.namespace,
            "KUBECONFIG": str(self.kubernetes.kubeconfig),
            "NODEMEND_CLUSTER": CLUSTER,
            **self.aws.environment(),
        }

    def environment_of(self, component: Component, node: str | None = None) -> dict[str, str]:
        """What a component needs, with no more rights than it has in earnest; for a detector, on its node."""
        kubeconfig = rights.kubeconfig_of(self.kubernetes, component, node)
        return {
            **self.environment(),
            "KUBECONFIG": str(kubeconfig),
            "POD_NAMESPACE": NAMESPACE,
            "NODEMEND_NAMESPACE": NAMESPACE,
        }


@contextmanager
def running_stack(
    state_dir: Path,
    *,
    progress: Progress = ignore_progress,
    rbac: Path | None = RBAC,
    kubelet_lease_s: int = LEASE_S,
) -> Iterator[Stack]:
    """Run the stack for the length of the block; its parts start side by side, with nothing in them.

    Args:
        state_dir: its folder. What an earlier stack left there is removed.
        progress: told each part that is up.
        rbac: manifests of what Nodemend's components may call; None for a cluster that has nothing of Nodemend yet.
        kubelet_lease_s: of the kubelets that are played; their renewing is most of what a large fleet costs at rest.

    Raises:
        StackError: a part did not start, and what had started is stopped again; or a stack runs in this folder.
    """
    # Before anything is started, for this is what newcomers lack.
    locate()
    state_dir = state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(state_dir), ExitStack() as stack, ThreadPoolExecutor(max_workers=3) as starters:
        for leftover in ("kubernetes", "exec", "logs"):
            shutil.rmtree(state_dir / leftover, ignore_errors=True)

        def start(name: str, part: Callable[[], AbstractContextManager[T]]) -> T:
            value = stack.enter_context(part())
            progress(f"{name} is up.")
            return value

        temporal = starters.submit(start, "Temporal", lambda: running_temporal(state_dir))
        kubernetes = starters.submit(
            start, "Kubernetes", lambda: running_kubernetes(state_dir, state_dir / "exec", kubelet_lease_s)
        )
        aws = starters.submit(start, "AWS (moto)", lambda: running_aws(state_dir))
        # Waiting for all before asking any, so that a part which fails does not leave another half started.
        parts = [part.exception() for part in (temporal, kubernetes, aws)]
        for failure in parts:
            if failure:
                raise failure
        if rbac:
            rights.install(kubernetes.result(), rbac)
        fleet = stack.enter_context(Fleet(kubernetes.result(), aws.result()))
        yield Stack(state_dir, temporal.result(), kubernetes.result(), aws.result(), fleet)


def is_locked(state_dir: Path) -> bool:
    """Whether a stack starts, runs or stops in this folder."""
    try:
        with (state_dir / _LOCK).open("r") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    """Hold the folder. The kernel drops the lock when its holder dies."""
    with (state_dir / _LOCK).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(
                f"A stack runs in {state_dir} already.", "Stop that one, or give this one a folder of its own."
            ) from None
        yield
