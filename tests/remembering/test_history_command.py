"""`nodemend history`: a machine that failed is found again by any of its names."""

import json
from datetime import UTC, datetime

import pytest
from rich.console import Console

from activities.memory import Memory
from cli.history import history_view
from contract.memory import FailedMachine, Failure
from contract.names import ExitCode
from tests.acting import Acting
from tests.operating.command import nodemend

MACHINE = FailedMachine(
    at=datetime(2026, 12, 1, 12, 0, tzinfo=UTC),
    failure=Failure.GIVEN_UP,
    node="node-7",
    instance_id="i-0123456789abcdef0",
    group="trn1",
    serials=("sn-7",),
    host="h-7",
    network_node="nn-7",
    job="research/Job/llama",
    reason="NeuronHasError_X",
    incident="remediate-7",
)


@pytest.mark.parametrize("key", ["node-7", "i-0123456789abcdef0", "sn-7", "h-7", "nn-7", ""])
def test_machine_is_found_by_node_instance_serial_host_and_network_node(
    acting: Acting, namespace: str, key: str
) -> None:
    Memory(acting.cluster, namespace).remember(MACHINE)
    named = [key] if key else []
    kubeconfig = str(acting.stack.kubernetes.kubeconfig)
    done = nodemend("history", *named, "-n", namespace, "-o", "json", KUBECONFIG=kubeconfig)
    assert done.returncode == ExitCode.OK, done.stderr
    assert [machine["incident"] for machine in json.loads(done.stdout)] == ["remediate-7"]


def test_people_see_where_a_machine_was_and_which_work_it_held() -> None:
    view = history_view([MACHINE], "", "default")
    console = Console(width=400)
    with console.capture() as seen:
        console.print(view)
    assert all(word in seen.get() for word in ("h-7, nn-7", "research/Job/llama", "sn-7", "NeuronHasError_X"))


def test_machine_that_never_failed_is_said_to_be_unknown(acting: Acting, namespace: str) -> None:
    done = nodemend("history", "node-8", "-n", namespace, KUBECONFIG=str(acting.stack.kubernetes.kubeconfig))
    assert (done.returncode, "No failure of node-8" in done.stdout) == (ExitCode.OK, True)


def test_without_a_cluster_it_says_what_to_set() -> None:
    done = nodemend("history", KUBECONFIG="/nowhere")
    assert (done.returncode, "KUBECONFIG" in done.stderr) == (ExitCode.CONFIG, True)
