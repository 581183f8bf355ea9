"""CloudWatch's alarms of a cluster, found and deleted: for ``nodemend uninstall``.

Only those of deploy/aws/alarms.json, by their full names: the alarms of cluster ``a`` are not those of ``a-b``.
"""

import json
from typing import Any, Final

from activities.aws_calls import SHORT_CALL, calling
from deploy.aws import ALARMS
from worker.clients import aws_session

_PLACE: Final = "CLUSTER"
_AT_ONCE: Final = 100
"""DescribeAlarms and DeleteAlarms take as many names (API reference of CloudWatch)."""


class Alarms:
    """Those of one cluster, with the rights of whoever runs the command."""

    def __init__(self, cluster: str) -> None:
        alarms = json.loads(ALARMS.read_text(encoding="utf-8"))
        self._names = [str(alarm["AlarmName"]).replace(_PLACE, cluster) for alarm in alarms]

    def found(self) -> list[str]:
        """The names of those that are there.

        Raises:
            ApplicationError: AWS refuses, or cannot be reached.
        """
        with calling("cloudwatch:DescribeAlarms"):
            client = self._client()
            there = client.describe_alarms(AlarmNames=self._names, MaxRecords=_AT_ONCE)["MetricAlarms"]
        return sorted(str(alarm["AlarmName"]) for alarm in there)

    def delete(self, names: list[str]) -> None:
        """Delete them.

        Raises:
            ApplicationError: AWS refuses, or cannot be reached.
        """
        with calling("cloudwatch:DeleteAlarms"):
            self._client().delete_alarms(AlarmNames=names)

    @staticmethod
    def _client() -> Any:
        return aws_session().client("cloudwatch", config=SHORT_CALL)
