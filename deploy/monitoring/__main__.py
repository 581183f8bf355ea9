"""Writes what is kept of it: ``python -m deploy.monitoring``."""

import json
from pathlib import Path
from typing import Final

import yaml

from deploy.monitoring.alerts import rules
from deploy.monitoring.dashboards import dashboard

ROOT: Final = Path(__file__).parents[1]


def documents() -> dict[Path, str]:
    """Every file and what stands in it."""
    return {
        ROOT / "helm/nodemend/files/dashboards/nodemend.json": json.dumps(dashboard(), indent=1) + "\n",
        ROOT / "monitoring/alerts.yaml": "# Written by `python -m deploy.monitoring`.\n"
        + yaml.safe_dump(rules(), sort_keys=False, width=120),
    }


if __name__ == "__main__":
    for path, text in documents().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
