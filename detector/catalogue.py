"""The rule catalogue: YAML that people write, checked by pydantic, compiled once to the JSON that watch loads.

Every rule carries lines that it must match and lines that it must not; they are checked here, so a rule that does not
do what it says never reaches a node.
"""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from contract.corroboration import RuleCorroboration
from contract.fault import DataTrust, EvidenceEnd, Verdict
from detector.literals import required_literals, why_unsafe
from detector.rules import Catalogue, normalised, rule_of

BUILT_IN: Final = Path(__file__).with_name("catalog")
_QUIET: Final = frozenset({Verdict.APPLICATION, Verdict.NOTICE})
_AGAINST_MACHINE: Final = frozenset({Verdict.HARDWARE, Verdict.REPAIRABLE, Verdict.AMBIGUOUS})


class CatalogueError(Exception):
    """A rule cannot be used; the message names file, rule, field and remedy."""


class Threshold(BaseModel):
    """How often within how long a quiet finding becomes a report."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int = Field(ge=2)
    window_s: float = Field(gt=0)


class RuleDocument(BaseModel):
    """One rule as people write it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{2,60}$")
    pattern: str
    """Python regular expression, searched in the message alone: no prefix, no anchors at the end (K13 to K15)."""
    component: str
    verdict: Verdict | Literal["benign"]
    """``benign`` stops the search: the line is known and means nothing."""
    data: DataTrust = DataTrust.TRUSTED
    evidence_end: EvidenceEnd = EvidenceEnd.REPLACEMENT
    workload_alive: bool = True
    corroboration: RuleCorroboration | None = None
    """What confirms it before anything is destroyed; left out: any second witness where it leaves doubt, else none."""
    device_resource: str | None = None
    condition_type: str
    reason: str
    signature: tuple[str, ...] = ()
    """Fields that make two findings different ones."""
    threshold: Threshold | None = None
    provenance: str
    """Where the knowledge comes from."""
    matches: tuple[str, ...] = Field(min_length=1)
    ignores: tuple[str, ...] = ()

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            compiled = re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression ({error})") from error
        if compiled.search(""):
            raise ValueError("matches the empty message, so it would match every one")
        if unsafe := why_unsafe(value):
            raise ValueError(unsafe)
        return value

    @model_validator(mode="after")
    def _does_what_it_says(self) -> "RuleDocument":
        pattern = re.compile(self.pattern)
        if missed := [line for line in self.matches if not pattern.search(normalised(line))]:
            raise ValueError(f"must match and does not: {missed[0]!r}")
        if caught := [line for line in self.ignores if pattern.search(normalised(line))]:
            raise ValueError(f"must not match and does: {caught[0]!r}")
        if self.corroboration and self.verdict not in _AGAINST_MACHINE:
            raise ValueError(f"nothing is destroyed on a {self.verdict} finding: leave `corroboration` out")
        if self.threshold and self.verdict not in _QUIET:
            raise ValueError("only application and notice findings are counted; others are reported at once")
        return self


def compile_catalogue(target: Path, extra: Path | None = None) -> int:
    """Check every rule and write what watch loads. Returns how many rules there are.

    Raises:
        CatalogueError: a rule cannot be used.
        OSError: the target cannot be written.
    """
    documents = load_rules([BUILT_IN, *([extra] if extra else [])])
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"rules": [compiled(document) for document in documents]}), encoding="utf-8")
    temporary.replace(target)
    return len(documents)


def load_rules(folders: Iterable[Path]) -> list[RuleDocument]:
    """The rules of some folders; later folders come first, so that a user's rule wins over ours.

    Raises:
        CatalogueError: a file is not valid, or two rules have one id.
    """
    found: list[RuleDocument] = []
    for folder in folders:
        rules = [rule for path in sorted(folder.glob("*.yaml")) for rule in _read(path)]
        found = rules + found
    ids = [rule.id for rule in found]
    if doubled := sorted({name for name in ids if ids.count(name) > 1}):
        raise CatalogueError(f"Two rules have the id {doubled[0]}: give one of them another.")
    return found


def catalogue(folders: Iterable[Path] = (BUILT_IN,)) -> Catalogue:
    """The rules ready to match, for tests and the command line."""
    return Catalogue([rule_of(compiled(document)) for document in load_rules(folders)])


def compiled(document: RuleDocument) -> dict[str, object]:
    """What watch needs of a rule."""
    return {
        **document.model_dump(mode="json", exclude={"provenance", "matches", "ignores", "threshold"}),
        "threshold": document.threshold.count if document.threshold else None,
        "window_s": document.threshold.window_s if document.threshold else 0.0,
        "needs": required_literals(document.pattern),
    }


def _read(path: Path) -> list[RuleDocument]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise CatalogueError(f"{path} is not a catalogue: write a mapping with a list `rules`. ({error})") from error
    except OSError as error:
        raise CatalogueError(f"{path} cannot be read: {error.strerror}.") from error
    entries = document.get("rules") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise CatalogueError(f"{path} is not a catalogue: write a mapping with a list `rules`.")
    rules = []
    for number, entry in enumerate(entries, start=1):
        try:
            rules.append(RuleDocument.model_validate(entry))
        except ValidationError as error:
            name = entry.get("id", f"number {number}") if isinstance(entry, dict) else f"number {number}"
            first = error.errors()[0]
            # After the field pydantic names the member of a union, which nobody wrote.
            field = str(first["loc"][0]) if first["loc"] else "rule"
            raise CatalogueError(f"{path}, rule {name}, {field}: {first['msg']}. Mend or remove the rule.") from error
    return rules
