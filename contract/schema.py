"""Writes the JSON schemas of the contract: ``python -m contract.schema docs/schema``.

They are what other people's programs validate against; a test fails when the files and the models differ.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from contract.fault import FaultReport, RemediationRequest
from contract.incident import IncidentReport
from contract.model import SCHEMA_VERSION
from contract.override import Override
from contract.permit import PermitAnswer, PermitRequest
from contract.plan import Plan
from contract.policy import Policy

PUBLISHED: Final[dict[str, type[BaseModel]]] = {
    "fault-report": FaultReport,
    "remediation-request": RemediationRequest,
    "plan": Plan,
    "override": Override,
    "permit-request": PermitRequest,
    "permit-answer": PermitAnswer,
    "policy": Policy,
    "incident-report": IncidentReport,
}


def schemas() -> Iterator[tuple[str, str]]:
    """File name and text of each published schema."""
    for name, model in PUBLISHED.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
        yield f"{name}.v{SCHEMA_VERSION}.json", json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write them into the folder that is named as the only argument."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
