"""The published schemas are those of the models, and real documents satisfy them."""

import json
from pathlib import Path

import jsonschema
import pytest

from contract.schema import PUBLISHED, schemas
from tests.runbook.world import finding

PUBLISHED_DIR = Path(__file__).parents[2] / "docs" / "schema"


@pytest.mark.parametrize(("name", "text"), list(schemas()))
def test_published_schema_is_current(name: str, text: str) -> None:
    assert (PUBLISHED_DIR / name).read_text() == text, "run `make schema`"


def test_nothing_else_is_published() -> None:
    assert {path.name for path in PUBLISHED_DIR.glob("*.json")} == {name for name, _ in schemas()}


def test_fault_report_satisfies_its_schema() -> None:
    schema = json.loads((PUBLISHED_DIR / "fault-report.v1.json").read_text())
    jsonschema.validate(json.loads(finding().model_dump_json()), schema)


@pytest.mark.parametrize("name", PUBLISHED)
def test_messages_are_frozen(name: str) -> None:
    assert PUBLISHED[name].model_config["frozen"] is True
