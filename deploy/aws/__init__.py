"""What AWS is asked to allow and to watch, as files that people and Terraform use (docs/aws.md)."""

from pathlib import Path
from typing import Final

ALARMS: Final = Path(__file__).parent / "alarms.json"
"""As ``PutMetricAlarm`` takes them, for the cluster ``CLUSTER``."""
WORKER_POLICY: Final = Path(__file__).parent / "iam" / "worker.json"
"""What the worker has to be allowed."""
