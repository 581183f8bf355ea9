"""Completes the chart's ``values.schema.json``: the policy's schema, and what may not be left empty.

``python -m deploy.values_schema`` writes it anew.

So that `helm install` and `helm upgrade` refuse a policy that no worker would take, with the field's name, instead of
leaving workers on the old one. What a schema cannot say (two fields that contradict each other) is said by
``nodemend policy check``.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from contract.policy import Policy

PATH: Final = Path(__file__).parent / "helm" / "nodemend" / "values.schema.json"
_PREFIX: Final = "policy."
_SPAN: Final = {"type": ["string", "number"], "pattern": "^P|[0-9]:[0-9]"}
"""ISO 8601, or h:mm:ss, or seconds: what pydantic reads as a duration or a time, and not ``30s``."""


def completed(values: dict[str, Any]) -> dict[str, Any]:
    """The schema of the chart's values, with ``policy`` as the workers' model has it, and what must be there. Pure."""
    policy = _draft_7(Policy.model_json_schema())
    kept = {name: schema for name, schema in values["definitions"].items() if not name.startswith(_PREFIX)}
    own = {name: _filled(schema, kept) for name, schema in kept.items()}
    theirs = {_PREFIX + name: schema for name, schema in policy.pop("$defs").items()}
    parts = {name: _filled(schema, own) for name, schema in values["properties"].items() if name != "policy"}
    order = dict.fromkeys(values["properties"])
    return {
        **values,
        "required": [name for name, schema in parts.items() if "properties" in schema],
        "definitions": {**own, **theirs},
        "properties": {**order, **parts, "policy": policy},
    }


def _filled(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A section of the values, where nothing may be null that may not be empty.

    Helm takes a key that is null, as a section is whose lines are all commented out, for one that is not there.
    """
    if "properties" not in schema:
        return schema
    parts = {name: _filled(part, definitions) for name, part in schema["properties"].items()}
    needed = [name for name, part in parts.items() if "properties" in part or not _may_be_empty(part, definitions)]
    return {**schema, "required": needed, "properties": parts} if needed else {**schema, "properties": parts}


def _may_be_empty(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    if "$ref" in schema:
        return _may_be_empty(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    match schema.get("type"):
        case "string":
            return not schema.get("minLength") and re.search(schema.get("pattern", ""), "") is not None
        case "array":
            return not schema.get("minItems")
        case "object":
            return not schema.get("required")
    return False


_ELSEWHERE: Final = {"title", "description", "default"}
"""Said in docs/policy.md."""


def _draft_7(schema: Any) -> Any:
    """Pydantic's words in the draft that Helm has always read."""
    if isinstance(schema, list):
        return [_draft_7(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") in ("duration", "time"):
        return dict(_SPAN)
    told = {key: value for key, value in schema.items() if key not in _ELSEWHERE}
    return {key: _translated(key, value) for key, value in told.items()}


def _translated(key: str, value: Any) -> Any:
    if key == "$ref":
        return str(value).replace("#/$defs/", f"#/definitions/{_PREFIX}")
    if key in ("properties", "$defs"):
        # Here the keys are names, and no words of the schema.
        return {name: _draft_7(schema) for name, schema in value.items()}
    return _draft_7(value)


def text() -> str:
    """What is to stand in the file."""
    return json.dumps(completed(json.loads(PATH.read_text(encoding="utf-8"))), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
