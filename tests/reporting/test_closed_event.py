"""The end of an incident is an Event on its Node, for `kubectl describe node`: one, however often it is written."""

import uuid
from typing import Any

import pytest

from activities.record import RecordActivity
from contract.acts import WriteRecord
from contract.incident import IncidentReport
from contract.names import Outcome, Step
from tests.acting import Acting
from tests.conftest import MakeNodeGroup
from tests.reporting.sample import closed


def events(acting: Acting, report: IncidentReport) -> list[Any]:
    """What `kubectl describe node` would list of it."""
    assert report.identity
    of_node = f"involvedObject.uid={report.identity.node_uid},reason=NodemendClosed"
    found: list[Any] = acting.core.list_event_for_all_namespaces(field_selector=of_node).items
    return found


def ended(acting: Acting, node: str, **changes: Any) -> IncidentReport:
    """An incident of that node."""
    about = {"identity": acting.target(node).identity, "node": node, "run_id": str(uuid.uuid4())}
    return closed(**about, **changes)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [(Outcome.REPLACED, "Normal"), (Outcome.RELEASED, "Normal"), (Outcome.ABORTED, "Warning")],
)
def test_node_that_was_touched_says_how_its_incident_ended_and_writing_it_twice_makes_one(
    acting: Acting, node_group: MakeNodeGroup, outcome: Outcome, kind: str
) -> None:
    node = node_group(1).nodes[0]
    report = ended(acting, node, outcome=outcome)
    act = RecordActivity(acting.records, cluster=acting.cluster)
    for _ in range(2):
        acting.do(act.write_record, WriteRecord(report=report))
    (event,) = events(acting, report)
    assert (event.type, event.involved_object.name, event.source.component) == (kind, node, "nodemend")
    assert event.message.startswith(f"{outcome}: {report.summary}")
    assert report.incident_id in event.message


def test_node_that_was_never_touched_has_no_event(acting: Acting, node_group: MakeNodeGroup) -> None:
    report = ended(acting, node_group(1).nodes[0], outcome=Outcome.OBSERVED)
    untouched = report.model_copy(
        update={"steps": tuple(step for step in report.steps if step.step is not Step.QUARANTINE)}
    )
    act = RecordActivity(acting.records, cluster=acting.cluster)
    acting.do(act.write_record, WriteRecord(report=untouched))
    assert events(acting, untouched) == []
