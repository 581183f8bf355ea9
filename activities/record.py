"""The record sinks: the closing report and its audit log as files, in S3, by webhook, and a word of it as an Event."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.archive import Archive
from activities.cluster import Cluster
from activities.errors import failure
from activities.preserve import incident_dir, write_whole
from activities.record_webhook import RecordWebhook
from contract.acts import Recorded, WriteRecord
from contract.audit import audit_log, lines
from contract.incident import IncidentReport, StepStatus
from contract.names import NON_RETRYABLE, ActivityName, ErrorType, Outcome, Step

REPORT: Final = "report.json"
AUDIT: Final = "audit.jsonl"
_GOOD: Final = frozenset({Outcome.REPLACED, Outcome.REPAIRED, Outcome.RELEASED})


class RecordActivity:
    """The act ``write_record``."""

    def __init__(
        self,
        record_dir: Path,
        archive: Archive | None = None,
        cluster: Cluster | None = None,
        webhook: RecordWebhook | None = None,
    ) -> None:
        self._record_dir = record_dir
        self._archive = archive
        self._cluster = cluster
        self._webhook = webhook

    @activity.defn(name=ActivityName.WRITE_RECORD, no_thread_cancel_exception=True)
    def write_record(self, argument: WriteRecord) -> Recorded:
        """Write the report to every sink. Writing it twice leaves one.

        A sink that refuses for good is named in the answer, and keeps the record from no other one.

        Raises:
            ApplicationError: ``Unreachable`` when a sink does not answer now.
        """
        report = argument.report
        uris: list[str] = []
        missed: list[str] = []
        for sink in (self._to_folder, self._to_archive, self._to_events):
            _into(sink, report, uris, missed)
        # Last, and once: a receiver that is away holds no incident open.
        if self._webhook and (why := self._webhook.tell(report)):
            missed.append(why)
        return Recorded(uris=tuple(uris), missed=tuple(missed))

    def write_missing(self, report: IncidentReport) -> list[str]:
        """Write a report where there is none of its incident's run, and return what was written.

        What is there is left alone: it is an incident's own word, or was written here before.

        Raises:
            ApplicationError: as for every sink, and what S3 refuses.
        """
        uris = [] if self._file(report).exists() else self._to_folder(report)
        if self._archive and self._archive.read(_key(self._archive, report, REPORT)) is None:
            uris += archived(self._archive, report)
        return uris

    def _file(self, report: IncidentReport) -> Path:
        return (incident_dir(self._record_dir, report.incident_id, report.run_id) / REPORT).absolute()

    def _to_folder(self, report: IncidentReport) -> list[str]:
        entries = audit_log(report)
        path = self._file(report)
        try:
            write_whole(path.with_name(AUDIT), lines(entries))
            write_whole(path, document(report))
        except OSError as error:
            raise failure(
                ErrorType.UNREACHABLE,
                f"The record {path} cannot be written ({error.strerror}). It is tried again; the same report is in the "
                "workflow's result.",
            ) from error
        log = [f"{path.with_name(AUDIT).as_uri()}#sha256={entries[-1].digest}"] if entries else []
        return [path.as_uri(), *log]

    def _to_archive(self, report: IncidentReport) -> list[str]:
        return archived(self._archive, report) if self._archive else []

    def _to_events(self, report: IncidentReport) -> list[str]:
        """The end of an incident that had touched its node, for ``kubectl describe node``."""
        touched = any(step.step is Step.QUARANTINE and step.status is StepStatus.DONE for step in report.steps)
        if self._cluster and report.identity and touched:
            self._cluster.record_event(
                {"metadata": {"name": report.identity.node, "uid": report.identity.node_uid}},
                "NodemendClosed",
                f"{report.outcome}: {report.summary} Incident {report.incident_id}.",
                key=f"{report.run_id[:13]}-closed",
                warning=report.outcome not in _GOOD,
            )
        return []


def archived(archive: Archive, report: IncidentReport) -> list[str]:
    """Keep a report and its audit log in S3. Doing it twice leaves one of each.

    Raises:
        ApplicationError: as for ``Archive.keep``.
    """
    entries = audit_log(report)
    # The log first, as in the folder: where there is a report, its log is there too.
    log = [archive.keep(_key(archive, report, AUDIT), lines(entries))] if entries else []
    kept = archive.keep(_key(archive, report, REPORT), document(report))
    return [kept, *(f"{uri}#sha256={entries[-1].digest}" for uri in log)]


def _key(archive: Archive, report: IncidentReport, name: str) -> str:
    return archive.key(report.cluster, report.incident_id, report.run_id, name)


def document(report: IncidentReport) -> str:
    """The report as sinks keep it."""
    return report.model_dump_json(indent=2) + "\n"


def _into(
    sink: Callable[[IncidentReport], list[str]], report: IncidentReport, uris: list[str], missed: list[str]
) -> None:
    try:
        uris += sink(report)
    except ApplicationError as error:
        if error.type not in NON_RETRYABLE:
            raise
        missed.append(error.message)
