"""Puts the policy's schema into the chart's ``values.schema.json``: ``python -m deploy.values_schema``.

So that `helm install` and `helm upgrade` refuse a policy that no worker would take, with the field's name, instead of
leaving workers on the old one. What a schema cannot say (two fields that contradict each other) is said by
``nodemend policy check``.
"""

import json
from pathlib import Path
from typing import Any, Final

from contract.policy import Policy

PATH: Final = Path(__file__).parent / "helm" / "nodemend" / "values.schema.json"
_PREFIX: Final = "policy."
_SPAN: Final = {"type": ["string", "number"], "pattern": "^P|[0-9]:[0-9]"}
"""ISO 8601, or h:mm:ss, or seconds: what pydantic reads as a duration or a time, and not ``30s``."""


def with_policy(values: dict[str, Any]) -> dict[str, Any]:
    """The schema of the chart's values, with ``policy`` as the workers' model has it. Pure."""
    policy = _draft_7(Policy.model_json_schema())
    own = {name: schema for name, schema in values["definitions"].items() if not name.startswith(_PREFIX)}
    theirs = {_PREFIX + name: schema for name, schema in policy.pop("$defs").items()}
    return {
        **values,
        "definitions": {**own, **theirs},
        "properties": {**values["properties"], "policy": policy},
    }


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
    return json.dumps(with_policy(json.loads(PATH.read_text(encoding="utf-8"))), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
