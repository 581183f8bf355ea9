"""Whether EKS itself acts on a managed node group while an incident drains one of its nodes (A19, A23).

EKS writes nothing on a Node that says so: its repair and its updates are seen in the node group alone. The look at the
group before the work is stopped sees what is there then; this one sees what is switched on afterwards, and comes before
the drain of a machine that is only rebooted, which no such look precedes.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from temporalio.exceptions import ApplicationError

from activities.allowed import Allowed
from activities.auto_scaling import AutoScaling
from activities.errors import failure
from activities.preflight import of_managed_group
from contract.identity import NodeIdentity
from contract.names import ErrorType
from contract.policy import Policy
from contract.replacement import Answer

_LOOK_EVERY_S: Final = 60.0
"""EKS repairs nothing sooner than ten minutes after its condition (EKS user guide, Node auto repair)."""

Describe = Callable[[str], dict[str, Any] | None]
"""EKS's description of the node group of an Auto Scaling group; None where EKS does not manage it."""


def described_by(auto_scaling: AutoScaling) -> Describe:
    """Asks AWS."""
    return lambda group: auto_scaling.nodegroup(auto_scaling.group(group))


class ManagedGroups:
    """Remembers for a minute what EKS does with each group. Safe to use from several threads."""

    def __init__(self, allowed: Allowed, describe: Describe, policy: Callable[[], Policy]) -> None:
        """``allowed`` is asked before."""
        self._allowed = allowed
        self._describe = describe
        self._policy = policy
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, dict[str, Any] | None]] = {}

    def allowed(self, identity: NodeIdentity, drill: bool) -> str:
        """An ``activities.allowed.Allowed``: raises ``PolicyForbids`` where the policy lets nobody act beside EKS."""
        version = self._allowed(identity, drill)
        if not identity.nodegroup or not identity.group:
            return version
        rules = self._policy().for_node(identity.group, identity.nodegroup).replacement
        for finding, words in of_managed_group(self._now(identity.group)):
            if rules.answer(finding) in (Answer.ASK, Answer.WAIT):
                raise failure(
                    ErrorType.POLICY_FORBIDS,
                    f"Nothing more is evicted from Node {identity.node}: {words}, and the policy's answer to "
                    f"{finding} is {rules.answer(finding)}. End that, or take over by `answers: {{{finding}: go-on}}`, "
                    "and press `resume`; or let EKS finish and press `abort`.",
                )
        return version

    def _now(self, group: str) -> dict[str, Any] | None:
        with self._lock:
            looked_at, nodegroup = self._known.get(group, (-_LOOK_EVERY_S, None))
        if time.monotonic() < looked_at + _LOOK_EVERY_S:
            return nodegroup
        try:
            nodegroup = self._describe(group)
        except ApplicationError as error:
            # A drain needs nothing of AWS: one that does not answer is no reason to stop it.
            if error.type != ErrorType.UNREACHABLE:
                raise
        with self._lock:
            self._known[group] = time.monotonic(), nodegroup
        return nodegroup
