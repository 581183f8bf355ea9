"""The record sink: the closing report as a JSON file, and its audit log beside it."""

from pathlib import Path

from temporalio import activity

from activities.errors import failure
from activities.preserve import incident_dir, write_whole
from contract.acts import Recorded, WriteRecord
from contract.audit import audit_log, lines
from contract.names import ActivityName, ErrorType


class RecordActivity:
    """The act ``write_record``."""

    def __init__(self, record_dir: Path) -> None:
        self._record_dir = record_dir

    @activity.defn(name=ActivityName.WRITE_RECORD, no_thread_cancel_exception=True)
    def write_record(self, argument: WriteRecord) -> Recorded:
        """Write the report. Writing it twice leaves one.

        Raises:
            ApplicationError: ``Unreachable`` when the folder cannot be written.
        """
        report = argument.report
        entries = audit_log(report)
        path = (incident_dir(self._record_dir, report.incident_id, report.run_id) / "report.json").absolute()
        try:
            write_whole(path.with_name("audit.jsonl"), lines(entries))
            write_whole(path, report.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise failure(
                ErrorType.UNREACHABLE,
                f"The record {path} cannot be written ({error.strerror}). It is tried again; the same report is in the "
                "workflow's result.",
            ) from error
        log = f"{path.with_name('audit.jsonl').as_uri()}#sha256={entries[-1].digest}" if entries else ""
        return Recorded(uris=(path.as_uri(), log) if log else (path.as_uri(),))
