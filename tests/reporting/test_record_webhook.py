"""A closing report by webhook: signed, tried again, and never what holds an incident open."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from activities.record import RecordActivity
from activities.record_webhook import RecordWebhook
from contract.acts import Recorded, WriteRecord
from contract.incident import IncidentReport
from contract.signing import SIGNATURE, TIMESTAMP, signature
from tests.reporting.receiver import Receiver, receiving
from tests.reporting.sample import closed


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def written(folder: Path, webhook: RecordWebhook) -> tuple[IncidentReport, Recorded]:
    report = closed()
    act = RecordActivity(folder, webhook=webhook)
    recorded: Recorded = ActivityEnvironment().run(act.write_record, WriteRecord(report=report))
    return report, recorded


def test_report_is_posted_whole_with_a_line_for_chats_and_its_signature(tmp_path: Path, receiver: Receiver) -> None:
    report, recorded = written(tmp_path, RecordWebhook(receiver.url, "secret"))
    assert recorded.missed == ()
    ((headers, data),) = receiver.raw
    body = json.loads(data)
    assert IncidentReport.model_validate(body["report"]) == report
    assert body["text"] == f"{report.node} {report.outcome}: {report.summary}"
    assert headers[SIGNATURE] == signature(b"secret", headers[TIMESTAMP], data)


def test_without_a_secret_nothing_is_signed(tmp_path: Path, receiver: Receiver) -> None:
    written(tmp_path, RecordWebhook(receiver.url))
    assert SIGNATURE not in receiver.raw[0][0]


def test_receiver_that_is_busy_is_asked_again(tmp_path: Path, receiver: Receiver) -> None:
    receiver.refusals += [503, 429]
    _, recorded = written(tmp_path, RecordWebhook(receiver.url))
    assert recorded.missed == ()
    assert len(receiver.taken) == 1


def test_receiver_that_refuses_or_is_away_is_named_without_its_address_and_the_files_are_there(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.closed = True
    _, recorded = written(tmp_path, RecordWebhook(receiver.url))
    assert recorded.missed == ("The webhook for records did not take it: it answered 403.",)
    assert any(uri.endswith("report.json") for uri in recorded.uris)

    _, recorded = written(tmp_path, RecordWebhook("http://127.0.0.1:9/secret-token"))
    (missed,) = recorded.missed
    assert "did not take it" in missed
    assert "secret-token" not in missed
