"""Clusters whose pods have IPv6 addresses alone, or IPv4 alone: every server answers in both, told nothing of it."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from contract.address import parse_address
from contract.names import ExitCode, incident_id
from deploy.local.process import free_ports
from deploy.local.temporal import running_temporal
from detector.exporter import Exporter
from detector.temporal_side import TemporalSide
from detector.trouble import Trouble
from tests.harness import http
from tests.operating.command import nodemend
from tests.operating.proxy import Proxy
from tests.runbook.world import finding
from worker.errors import StartError
from worker.health import Health, HealthServer
from worker.listening import HttpServer
from worker.temporal import connect, load_connection, make_runtime

pytestmark = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")

LOOPBACK = {"[::ffff:127.0.0.1]": "127.0.0.1", "[::1]": "[::1]"}
"""A socket of IPv6 on each loopback address, and how it is asked: tests listen nowhere else. The first is bound only by
a socket that takes IPv4 too (RFC 4291, 2.5.5.2; RFC 3493, 5.3), as the one on every address has to."""


@contextmanager
def health(host: str) -> Iterator[tuple[int, str]]:
    server = HealthServer(parse_address(f"{host}:0"), Health())
    yield parse_address(server.address).port, "/livez"
    server.close()


@contextmanager
def exporter(host: str) -> Iterator[tuple[int, str]]:
    served, over = Exporter(*parse_address(f"{host}:0")), threading.Event()

    def serve() -> None:
        while not over.is_set():
            select.select([served.descriptor], [], [], 0.05)
            served.serve(lambda: (True, {}), lambda: "")

    thread = threading.Thread(target=serve)
    thread.start()
    yield served.port, "/healthz"
    over.set()
    thread.join()
    served._socket.close()


@contextmanager
def metrics(host: str) -> Iterator[tuple[int, str]]:
    (port,) = free_ports(1)
    runtime = make_runtime(f"{host}:{port}")
    yield port, "/metrics"
    del runtime


@pytest.mark.parametrize("server", [health, exporter, metrics])
@pytest.mark.parametrize("host", LOOPBACK)
def test_socket_that_a_server_has_takes_both(
    server: Callable[[str], AbstractContextManager[tuple[int, str]]], host: str
) -> None:
    with server(host) as (port, path):
        assert http(f"http://{LOOPBACK[host]}:{port}{path}")[0] == 200


def test_server_of_ipv6_says_where_it_is_as_a_url_has_it() -> None:
    with HttpServer(parse_address("[::1]:0"), lambda *_: None) as server:  # type: ignore[arg-type,return-value]
        assert str(server.at) == f"[::1]:{server.server_port}"


@pytest.mark.temporal
async def test_each_program_reaches_temporal_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_temporal(tmp_path) as temporal, Proxy(temporal.address, host="::1") as front:
        assert front.address.startswith("[::1]:")
        settings = {
            "TEMPORAL_ADDRESS": front.address,
            "TEMPORAL_NAMESPACE": temporal.namespace,
            "NODEMEND_CLUSTER": "c",
        }
        command = nodemend("status", **settings)
        assert command.returncode == ExitCode.OK, command.stderr
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        report = finding()
        await TemporalSide().deliver(report)
        worker = await connect(load_connection(), make_runtime(""), "worker")
        incident = worker.get_workflow_handle(incident_id(report.cluster, report.node, report.instance_id))
        assert (await incident.describe()).status is WorkflowExecutionStatus.RUNNING


@pytest.mark.parametrize("wrong", ["::1:7233", "fd00::1:7233", "fd00::7233"])
async def test_ipv6_without_brackets_is_78_and_says_the_remedy(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = nodemend("status", TEMPORAL_ADDRESS=wrong, NODEMEND_CLUSTER="c")
    assert done.returncode == ExitCode.CONFIG, done.stderr
    assert f"Temporal at {wrong} is no address" in done.stderr
    assert "in brackets" in done.stderr
    monkeypatch.setenv("TEMPORAL_ADDRESS", wrong)
    with pytest.raises(StartError, match="is no address"):
        await connect(load_connection(), make_runtime(""), "worker")
    with pytest.raises(Trouble, match="is no address"):
        await TemporalSide().deliver(finding())
