"""Names are held on to by histories, saved views, dashboards and alarms: a change of one is a decision, not a slip."""

import json
from pathlib import Path

from contract import names

GOLDEN = Path(__file__).with_name("names.json")


def current() -> dict[str, object]:
    """Every public name and its value."""
    found: dict[str, object] = {}
    for name, value in vars(names).items():
        if name.startswith("_"):
            continue
        if isinstance(value, str | int | tuple):
            found[name] = list(value) if isinstance(value, tuple) else value
        elif isinstance(value, type) and issubclass(value, names.StrEnum) and value is not names.StrEnum:
            found[name] = {member.name: member.value for member in value}
    found["ExitCode"] = {key: value for key, value in vars(names.ExitCode).items() if key.isupper()}
    return found


def test_no_name_changes_unnoticed() -> None:
    assert current() == json.loads(GOLDEN.read_text()), (
        "A public name changed. If that is meant, write tests/contract/names.json anew and say so in CHANGELOG.md."
    )


def test_incident_id_tells_machine_and_rehearsal_apart() -> None:
    real = names.incident_id("prod", "node-1", "i-0123456789abcdef0")
    assert real == "remediate-prod-node-1-i-0123456789abcdef0"
    assert names.incident_id("prod", "node-1", "i-0123456789abcdef0", drill=True) != real
    assert names.incident_id("prod", "node-1", None).endswith("-unknown")
    assert "/" not in real
