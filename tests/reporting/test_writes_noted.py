"""What acts write outside is noted where it is sent: object, verb, status, and the ids by which others logged it."""

import pytest

from activities.quarantine import QuarantineActivity
from activities.written import Writes, noting
from contract import acts
from contract.trail import System, Trail
from tests.acting import Acting
from tests.conftest import MakeNodeGroup

pytestmark = pytest.mark.stack


def test_a_write_of_kubernetes_has_its_version_and_the_id_of_its_audit_log(
    acting: Acting, node_group: MakeNodeGroup
) -> None:
    node = node_group(1).nodes[0]
    writes = Writes(Trail())
    with noting(writes):
        acting.do(
            QuarantineActivity(acting.cluster).quarantine_node,
            acts.QuarantineNode(target=acting.target(node), rule="r", reason="R"),
        )
    patched = next(write for write in writes.trail.writes if write.verb == "patch")
    now = acting.cluster.node(node)
    assert now is not None
    assert (patched.system, patched.object, patched.status) == (System.KUBERNETES, f"/api/v1/nodes/{node}", 200)
    assert 0 < int(patched.version) <= int(now["metadata"]["resourceVersion"])
    assert patched.request_id


def test_a_write_of_aws_has_its_request_id_and_reading_is_no_write(acting: Acting, node_group: MakeNodeGroup) -> None:
    node = node_group(1).nodes[0]
    instance = acting.target(node).identity.instance_id
    assert instance
    writes = Writes(Trail())
    with noting(writes):
        assert acting.auto_scaling.ec2.instance(instance)
        acting.auto_scaling.ec2.reboot(instance)
    (write,) = writes.trail.writes
    assert (write.system, write.verb, write.object) == (System.AWS, "ec2:RebootInstances", f"InstanceIds={instance}")
    assert write.request_id
