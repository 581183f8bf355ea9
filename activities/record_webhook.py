"""The closing report, posted to a receiver of the user's own.

``text`` is one line of it, under the name that Slack and its like give a message. What pages people is
``worker.paging``; this tells how it ended.
"""

import json
from typing import Final

import urllib3
from urllib3.exceptions import HTTPError

from contract.incident import IncidentReport
from contract.model import SCHEMA_VERSION
from contract.signing import signed

_PATIENCE: Final = urllib3.Timeout(connect=3.0, read=5.0)
_RETRIES: Final = urllib3.Retry(
    total=3, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None, redirect=0
)
"""Less than the minute that the act may take."""


class RecordWebhook:
    """One receiver. Safe to use from several threads."""

    def __init__(self, url: str, secret: str = "") -> None:
        self._url = url
        self._secret = secret.encode()
        self._pool = urllib3.PoolManager(timeout=_PATIENCE, retries=_RETRIES)

    def tell(self, report: IncidentReport) -> str:
        """Post it. Returns why it was not taken, without the address, which may be a secret; empty when it was.

        The same report may come twice: its ``incident_id`` and ``run_id`` tell.
        """
        text = f"{report.node} {report.outcome}: {report.summary}"
        body = {"schema_version": SCHEMA_VERSION, "text": text, "report": report.model_dump(mode="json")}
        data = json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", **signed(self._secret, data)}
        try:
            answer = self._pool.request("POST", self._url, body=data, headers=headers)
        except HTTPError as error:
            return f"The webhook for records did not take it: {type(error.__cause__ or error).__name__}."
        taken = 200 <= answer.status < 300
        return "" if taken else f"The webhook for records did not take it: it answered {answer.status}."
