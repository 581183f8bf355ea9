"""What a person reads who is woken at night: what failed, how things stand, what to do, and exactly what to type. Pure.

docs/on-call.md is printed from these tables (``python -m workflows.on_call``), and a test holds every step and every
kind of failure to a sentence, a command and its JSON.
"""

import json
import shlex
from typing import Final

from contract.names import ErrorType, OverrideName, Step

TIMED_OUT: Final = "TimedOut"
"""Stands for a failure without a type: no worker finished the act in time."""

STANDS: Final = {
    Step.IDENTIFY: "Nothing was touched by it.",
    Step.QUARANTINE: "The node may still be open to new work, and its work goes on.",
    Step.SETTLE: "The node is closed to new work, and its work goes on.",
    Step.ASSESS: "The node is closed to new work, and its work goes on.",
    Step.PRESERVE: "The node is closed to new work, and its work goes on.",
    Step.DISRUPT: "The node is closed to new work, and its work goes on.",
    Step.CHECKPOINT: "The node is closed to new work; nothing was evicted.",
    Step.DRAIN: "The node is closed to new work; some of its pods may be gone already.",
    Step.RESET_DEVICE: "The node is drained and closed; its devices may be half reset.",
    Step.REBOOT: "The node is drained and closed; it may be down.",
    Step.REPLACE: "The node is drained and closed; whether its instance is given up is in the sentence before.",
    Step.AWAIT_REPLACEMENT: "No other machine is in its place yet.",
    Step.VERIFY: "The new node keeps its startup taint: no work goes there.",
    Step.CLOSE: "The new machine works; of the old one something is left.",
}
"""How the machine stands when a step has failed."""

DO: Final = {
    TIMED_OUT: "See that workers run and what *Pending Activities* says of them.",
    ErrorType.NODE_GONE: "See who removed the Node. If its machine is gone too, press `abort`.",
    ErrorType.HUMAN_VETO: "Ask whoever opened the node, or took it from Nodemend, whether it may go on.",
    ErrorType.OWNED_BY_ANOTHER: "See which incident owns the node (annotation nodemend.io/owner), and end one of them.",
    ErrorType.FENCED_OUT: "A later run of this incident owns the node: look there, and press `abort` here.",
    ErrorType.POLICY_FORBIDS: "Change the policy, or what it forbids, if that is right.",
    ErrorType.PERMIT_QUEUED: "See with `nodemend budget` what the permit waits for.",
    ErrorType.INSTANCE_NOT_IN_GROUP: "Attach the instance to its group, or replace it by hand and press `abort`.",
    ErrorType.WRONG_INSTANCE: "The Node and its instance do not belong together: find out why before anything else.",
    ErrorType.ACCESS_DENIED: "Grant the worker the right that is named (docs/operating.md, Rights of the worker).",
    ErrorType.UNREACHABLE: "See whether Kubernetes and AWS answer, from where the worker runs.",
    ErrorType.CONFLICT: "Somebody else writes the same object again and again: find out who.",
    ErrorType.DRAIN_FORBIDDEN: "Let the pods that are named go, or change the policy.",
    ErrorType.DRAIN_BLOCKED: "Make room for what is named, or `skip-step`: the pods then end with the machine.",
    ErrorType.NO_REPLACEMENT: "See why the group launches nothing: capacity, its launch template, its processes.",
    ErrorType.NOT_VERIFIED: "Look at the new machine: it does not prove whole.",
    ErrorType.BUDGET_UNAVAILABLE: "See with `nodemend budget` whether FleetBudget answers, and has a worker.",
    ErrorType.OVERRIDE_REFUSED: "Look at what can be pressed now: `nodemend watch` shows it.",
    ErrorType.NOT_PROVEN: "See whether the node's detector runs and may write its own Node's annotation.",
    ErrorType.EVIDENCE_OVER: "See who mended the machine: `release` gives it back, `resume` replaces it all the same.",
}
"""What to do about a kind of failure, beside what its own sentence says."""


def failed(step: Step, kind: ErrorType | None, message: str, node: str, *, transient: bool) -> str:
    """What failed, how things stand, what to do and what to type."""
    again = " It is tried again by itself when this is told again." if transient else ""
    return f"{step} failed: {message} {STANDS[step]} {DO[kind or TIMED_OUT]}{again} {way_on(OverrideName.RESUME, node)}"


def way_on(name: OverrideName, node: str, plan: str = "") -> str:
    """The exact command, and the exact argument of the signal or update, that lets the incident go on."""
    return f"To go on: `{command(name, node, plan)}`, or send `{name}` with `{argument(plan)}`."


def command(name: OverrideName, node: str, plan: str = "") -> str:
    """What to type: it is taken as it stands."""
    words = ["nodemend", name.replace("_", "-"), node]
    if name is OverrideName.APPROVE and plan:
        words += ["--plan", plan]
    if name is OverrideName.EXTEND_DEADLINE:
        words += ["--extension", "PT30M"]
    return shlex.join([*words, "--reason", "why"])


def argument(plan: str = "") -> str:
    """What to send from the Temporal UI."""
    return json.dumps({"by": "you", "reason": "why", **({"plan": plan} if plan else {})})
