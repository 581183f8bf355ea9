"""Matching kernel messages against the compiled catalogue. Standard library alone.

A rule's pattern runs only on lines that hold a text without which it cannot match (``detector.literals``), and such
texts are looked for in many raw records at once: most lines are nobody's fault.
"""

import json
import re
from typing import Any, Final, NamedTuple

from detector.kmsg import unescape

_KEY_VALUE: Final = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]{0,40})=([^\s\"']{1,200})")
"""The line's own ``key=value`` pairs, e.g. ``nd-id=3``."""
_PLACE: Final = re.compile(r"\{([\w-]+)\}")
_NOT_OF_A_REASON: Final = re.compile(r"[^A-Za-z0-9_]")
_REASON_MAX: Final = 128
_PAIRS_MAX: Final = 24
_TEXT_MAX: Final = 2048
"""Longest text that is matched: no rule needs more, and patterns run in bounded time."""


class Rule(NamedTuple):
    """One rule, as ``detector.catalogue`` compiled it."""

    id: str
    pattern: "re.Pattern[str]"
    component: str
    verdict: str
    data: str
    evidence_end: str
    workload_alive: bool
    device_resource: "str | None"
    condition_type: str
    reason: str
    signature: "tuple[str, ...]"
    threshold: "int | None"
    window_s: float
    corroboration: "dict[str, Any] | None" = None
    """Carried to the worker as it is written (``contract.corroboration``)."""
    needs: "tuple[str, ...]" = ()
    """Texts of which every match contains at least one; empty: always run."""


class Match(NamedTuple):
    """What a rule found in a message."""

    rule: Rule
    fields: "dict[str, str]"
    reason: str
    signature: str


class Catalogue:
    """The rules, in the order of their priority: the first that matches a message has it."""

    def __init__(self, rules: "list[Rule]") -> None:
        self.rules = rules
        self._always = [index for index, rule in enumerate(rules) if not rule.needs]
        needed: dict[str, list[int]] = {}
        for index, rule in enumerate(rules):
            for text in rule.needs:
                needed.setdefault(text, []).append(index)
        self._needed = list(needed.items())
        # A text that holds another of them is there only where that one is.
        shortest = [text for text in needed if not any(other != text and other in text for other in needed)]
        self._marks = [(text, text.encode()) for text in shortest]

    @classmethod
    def load(cls, path: str) -> "Catalogue":
        """Read what ``detector.catalogue`` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not what was written.
        """
        with open(path, encoding="utf-8") as handle:  # noqa: PTH123 - pathlib costs memory that watch does not have
            documents: list[dict[str, Any]] = json.load(handle)["rules"]
        return cls([rule_of(document) for document in documents])

    def marks(self, raw: bytes) -> "list[bytes]":
        """Which texts of interest some raw records hold. None: no rule matches, unless the kernel escaped something."""
        if self._always:
            return [b""]
        # Looking through a str is eight times as fast as through bytes; this decoding keeps every byte.
        text = raw.decode("latin-1")
        return [mark for needed, mark in self._marks if needed in text]

    def match(self, message: str) -> "Match | None":
        """The first rule that knows the message."""
        text = normalised(message[:_TEXT_MAX])
        candidates = [index for needed, indexes in self._needed if needed in text for index in indexes]
        if not candidates and not self._always:
            return None
        for index in sorted({*candidates, *self._always}):
            rule = self.rules[index]
            found = rule.pattern.search(text)
            if found:
                captured = {key: value for key, value in found.groupdict().items() if value}
                fields = {**key_values(text), **captured}
                return Match(rule, fields, _fill(rule.reason, fields), _signature(rule, fields))
        return None


def normalised(text: str) -> str:
    """One blank where the kernel or a driver wrote several, a tab or a line's end: patterns say one blank."""
    if "\\x" in text:
        # A capture may hold lines as /dev/kmsg escapes them; what was unescaped once is not changed by it again.
        text = unescape(text)
    return " ".join(text.split()) if "  " in text or not text.isprintable() else text


def key_values(text: str) -> "dict[str, str]":
    """The message's own key=value pairs, bounded."""
    found: dict[str, str] = {}
    for match in _KEY_VALUE.finditer(text):
        if len(found) >= _PAIRS_MAX:
            break
        found.setdefault(match[1], match[2])
    return found


def rule_of(document: "dict[str, Any]") -> Rule:
    """A rule from its compiled form."""
    return Rule(
        id=document["id"],
        pattern=re.compile(document["pattern"]),
        component=document["component"],
        verdict=document["verdict"],
        data=document["data"],
        evidence_end=document["evidence_end"],
        workload_alive=document["workload_alive"],
        device_resource=document["device_resource"],
        condition_type=document["condition_type"],
        reason=document["reason"],
        signature=tuple(document["signature"]),
        threshold=document["threshold"],
        window_s=document["window_s"],
        corroboration=document["corroboration"],
        needs=tuple(document["needs"]),
    )


def _fill(template: str, fields: "dict[str, str]") -> str:
    """A reason: letters, digits and underscores, as Kubernetes wants it (CamelCase word, here with codes)."""
    if "{" in template:
        template = _PLACE.sub(lambda match: fields.get(match[1], "UNKNOWN"), template)
    return _NOT_OF_A_REASON.sub("_", template)[:_REASON_MAX]


def _signature(rule: Rule, fields: "dict[str, str]") -> str:
    """Rule, device and code: what de-duplication counts (K26)."""
    return "/".join([rule.id, *(f"{key}={fields[key]}" for key in rule.signature if key in fields)])[:200]
