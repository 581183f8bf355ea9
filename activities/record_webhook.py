"""The closing report, posted to a receiver of the user's own.

``text`` is one line of it, under the name that Slack and its like give a message. What pages people is
``worker.paging``; this tells how it ended.
"""

from typing import Final

import urllib3

from activities.posting import NotTakenError, Poster
from contract.incident import IncidentReport
from contract.model import SCHEMA_VERSION

_PATIENCE: Final = urllib3.Timeout(connect=3.0, read=5.0)
"""All tries together take less than the minute that the act may."""


class RecordWebhook:
    """One receiver. Safe to use from several threads."""

    def __init__(self, url: str, secret: str = "") -> None:
        self._poster = Poster(url, secret, _PATIENCE)

    def tell(self, report: IncidentReport) -> str:
        """Post it. Returns why it was not taken, without the address, which may be a secret; empty when it was.

        The same report may come twice: its ``incident_id`` and ``run_id`` tell.
        """
        text = f"{report.node} {report.outcome}: {report.summary}"
        body = {"schema_version": SCHEMA_VERSION, "text": text, "report": report.model_dump(mode="json")}
        try:
            self._poster.post(body)
        except NotTakenError as error:
            return f"The webhook for records did not take it: {error}."
        return ""
