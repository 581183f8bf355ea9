"""Rules from a configuration of the node problem detector, for ``nodemend rules import-npd``.

Source: kubernetes/node-problem-detector, pkg/systemlogmonitor (``rules``: ``type``, ``condition``, ``reason``,
``pattern``; a pattern must match to the end of the message). What it does not say, a human must: each rule comes out as
``ambiguous`` (permanent) or ``notice`` (temporary), with a sample line to be replaced by a real one.
"""

import re
from typing import Any, Final

from pydantic import ValidationError

from detector.catalogue import RuleDocument
from detector.literals import sample

_NOT_OF_AN_ID: Final = re.compile(r"[^a-z0-9]+")
_GO_ONLY: Final = (("\\z", "$"), ("(?s)", ""))
_ANYTHING: Final = re.compile(r"^\.\*\s?|\s?\.\*$")


class NpdError(Exception):
    """The configuration cannot be imported; the message says which rule, and why."""


def convert(document: dict[str, Any], origin: str) -> list[dict[str, Any]]:
    """Our rules from an NPD configuration.

    Raises:
        NpdError: it is none, or a rule cannot be used.
    """
    found = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise NpdError("it has no list `rules`: is it a system log monitor's configuration?")
    rules = [_convert(rule, number, origin) for number, rule in enumerate(found, start=1)]
    # Its own kernel-monitor.json has several rules of one reason (KernelOops); an id is one rule's.
    seen: dict[str, int] = {}
    for rule in rules:
        seen[rule["id"]] = times = seen.get(rule["id"], 0) + 1
        if times > 1:
            rule["id"] = f"{rule['id'][:56]}-{times}"
    return rules


def _convert(rule: Any, number: int, origin: str) -> dict[str, Any]:
    if not isinstance(rule, dict):
        raise NpdError(f"rule {number} is no object with type, reason and pattern.")
    try:
        reason, pattern = str(rule["reason"]), str(rule["pattern"])
        permanent = rule["type"] == "permanent"
        condition = str(rule["condition"]) if permanent else "KernelHealth"
    except (KeyError, TypeError) as error:
        raise NpdError(f"rule {number} has no {error}.") from error
    for go, python in _GO_ONLY:
        pattern = pattern.replace(go, python)
    # Ours are searched for: "anything" at the ends says nothing, and the blank beside it misses lines (K15).
    pattern = _ANYTHING.sub("", pattern)
    ours: dict[str, Any] = {
        "id": ("npd-" + _NOT_OF_AN_ID.sub("-", reason.lower()).strip("-"))[:60],
        "pattern": pattern,
        "component": "imported",
        "verdict": "ambiguous" if permanent else "notice",
        "evidence_end": "boot",
        "condition_type": condition,
        "reason": reason,
        "provenance": f"imported from {origin}: judge it, and put a real line in its place",
    }
    try:
        ours["matches"] = [sample(pattern)]
        RuleDocument.model_validate(ours)
    except (ValidationError, re.error, ValueError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise NpdError(f"rule {number} ({reason}): {why}. Write it by hand.") from error
    return ours
