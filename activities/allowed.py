"""Whether the policy, as it is at this moment, still lets a node be touched: tightening it holds at once.

An incident decides by the policy that it found when it identified its machine. Waiting for a permit or for pods takes
hours, in which the owners may have said no more.
"""

from collections.abc import Callable

from activities.errors import failure
from contract.identity import NodeIdentity
from contract.names import ErrorType
from contract.policy import Mode, Policy

Allowed = Callable[[NodeIdentity, bool], str]
"""Told whose machine, and whether it is a drill; returns the version of the policy that allows it."""


def by_policy(policy: Callable[[], Policy]) -> Allowed:
    """Asks the policy as it is when it is asked.

    The answer raises ``PolicyForbids`` once the group's mode is less than ``act``.
    """

    def check(identity: NodeIdentity, drill: bool) -> str:
        now = policy()
        mode = now.for_node(identity.group, identity.nodegroup).mode_for(drill=drill)
        if mode is not Mode.ACT:
            raise failure(
                ErrorType.POLICY_FORBIDS,
                f"The policy ({now.version}) says {mode} for {identity.group or identity.node} by now: "
                f"{identity.instance_id or identity.node} is not touched. Change it back and press `resume`, or press "
                "`release`.",
            )
        return now.version

    return check


def always(_identity: NodeIdentity, _drill: bool) -> str:
    """For acts that are run by hand, without a policy."""
    return ""
