"""What goes wrong around ``watch-cluster``: nothing is sent twice, and nothing is lost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import psutil
import yaml
from kubernetes import client, config

from contract.names import WATCH_CLUSTER
from deploy.local.build import locate
from deploy.local.kubernetes import _apiserver
from deploy.local.process import answers, running
from detector.cluster.api import Api
from detector.cluster.documents import load_rules
from detector.cluster.informer import Informer
from detector.cluster.view import Lens
from tests.conftest import MakeNodeGroup
from tests.detecting.running import PATIENCE_S, wait_until
from tests.harness import connect
from tests.operating.proxy import Proxy
from tests.watching_cluster.running import Cluster
from tests.watching_cluster.test_sources import sent


def through(cluster: Cluster, proxy: Proxy) -> dict[str, str]:
    """The environment of a replica that reaches the API server through the proxy."""
    config = yaml.safe_load(Path(cluster.environment["KUBECONFIG"]).read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://{proxy.address}"
    mine = cluster.folder / "kubeconfig"
    mine.write_text(yaml.safe_dump(config))
    return {"KUBECONFIG": str(mine)}


def api_server(cluster: Cluster) -> str:
    config = yaml.safe_load(Path(cluster.environment["KUBECONFIG"]).read_text())
    return urlparse(config["clusters"][0]["cluster"]["server"]).netloc


@contextmanager
def connected(kubeconfig: str) -> Iterator[Any]:
    """A client as this file says."""
    api: Any = config.new_client_from_config(config_file=kubeconfig)
    try:
        yield api
    finally:
        api.close()


async def close(cluster: Cluster, node: str) -> None:
    """The incident of a node ends."""
    await (await connect(cluster.stack)).get_workflow_handle(cluster.incident(node)).terminate()


async def test_restart_sends_nothing_twice_and_loses_nothing(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    before, meanwhile = node_group(2).nodes
    with cluster.watching() as replica:
        cluster.condition(before, "ToasterReady", "False", "BurnsHot")
        sent(replica, 1)
        wait_until(cluster.ledger)
        replica.process.kill()
    # Its incident is over, so a report that came again would start another.
    await close(cluster, before)
    cluster.condition(meanwhile, "ToasterReady", "False", "BurnsHot")
    with cluster.watching() as replica:
        sent(replica, 1)
        wait_until(lambda: len(cluster.ledger()) == 2)
    assert len(await cluster.reports(before)) == len(await cluster.reports(meanwhile)) == 1


async def test_death_between_temporal_and_the_ledger_is_no_second_signal(
    cluster: Cluster, node_group: MakeNodeGroup
) -> None:
    (node,) = node_group(1).nodes

    def versions() -> set[str]:
        events = cluster.core.list_namespaced_event("default", field_selector=f"involvedObject.name={node}").items
        return {event.metadata.resource_version for event in events if event.source.component == WATCH_CLUSTER}

    cluster.condition(node, "ToasterReady", "False", "BurnsHot")
    with cluster.watching() as replica:
        sent(replica, 1)
        wait_until(versions)
        replica.process.kill()
    told = versions()
    # Its owner goes on about it, in other words.
    words = {"status": {"conditions": [{"type": "ToasterReady", "message": "It burns still."}]}}
    cluster.core.patch_node_status(node, words, _content_type="application/strategic-merge-patch+json")
    # The worst moment: the incident that it started is over already.
    await close(cluster, node)
    # As it is, when it dies before the ledger is written; it may have been quicker.
    with suppress(client.ApiException):
        cluster.core.delete_namespaced_config_map(WATCH_CLUSTER, cluster.namespace)
    with cluster.watching() as replica:
        sent(replica, 1)
        # Said once more, and that is the same Event.
        wait_until(lambda: versions() != told)
    assert len(versions()) == 1
    assert len(await cluster.reports(node)) == 1


async def test_condition_that_ends_and_comes_again_is_one_finding_with_a_count(
    cluster: Cluster, node_group: MakeNodeGroup
) -> None:
    (node,) = node_group(1).nodes
    with cluster.watching() as replica:
        cluster.condition(node, "ToasterReady", "False", "BurnsHot", ago_s=100)
        sent(replica, 1)
        cluster.condition(node, "ToasterReady", "True", "Cool", ago_s=50)
        wait_until(lambda: any(json.loads(text)["ended_at"] for text in cluster.ledger().values()))
        cluster.condition(node, "ToasterReady", "False", "BurnsHot")
        # Told at most once a minute: it waits, and is not lost.
        wait_until(lambda: [json.loads(text)["times"] for text in cluster.ledger().values()] == [2])
    assert [report.count for report in await cluster.reports(node)] == [1]


async def test_cut_connection_and_server_that_comes_back(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    first, second = node_group(2).nodes
    with Proxy(api_server(cluster)) as proxy, cluster.watching(**through(cluster, proxy)) as replica:
        cluster.condition(first, "ToasterReady", "False", "BurnsHot")
        sent(replica, 1)
        proxy.cut()
        wait_until(lambda: replica.metric("reconnects_total"))
        cluster.condition(second, "ToasterReady", "False", "BurnsHot")
        proxy.mend()
        sent(replica, 1)
        wait_until(lambda: len(cluster.ledger()) == 2)
        # It went on where it was: no second list, unless its Lease had run out meanwhile.
        assert replica.metric("lists_total") == 1
    assert len(await cluster.reports(first)) == len(await cluster.reports(second)) == 1


async def test_slow_server(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    (node,) = node_group(1).nodes
    with Proxy(api_server(cluster), delay_s=0.3) as proxy, cluster.watching(**through(cluster, proxy)) as replica:
        cluster.condition(node, "ToasterReady", "False", "BurnsHot")
        sent(replica, 1)
    assert len(await cluster.reports(node)) == 1


@contextmanager
def another_api_server(cluster: Cluster) -> Iterator[str]:
    """A second server on the same etcd. It has just started, so it knows no version from before."""
    etcd = psutil.Process(cluster.stack.kubernetes.pids[0]).cmdline()
    (clients,) = [word.rpartition(":")[2] for word in etcd if word.startswith("--listen-client-urls=")]
    folder = cluster.stack.state_dir / "kubernetes"
    certificates = folder / "certificates"
    token = (folder / "tokens.csv").read_text().partition(",")[0]
    with running(
        "another-apiserver",
        _apiserver(locate(), folder, certificates, folder / "service-account.key", int(clients)),
        ports=1,
        ready=lambda ports: answers(
            f"https://127.0.0.1:{ports[0]}/readyz", token=token, ca=certificates / "apiserver.crt"
        ),
        state_dir=cluster.folder,
        remedy="",
        grace=0,
    ) as process:
        yield f"127.0.0.1:{process.ports[0]}"


def test_410_gone_is_a_new_list_in_which_nothing_changed(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    """The API server goes, and another takes its place, which says that the version is too old."""
    one, two = node_group(2).nodes
    rules = load_rules(Path(cluster.environment["NODEMEND_CLUSTER_RULES_DIR"]))
    cluster.condition(one, "ToasterReady", "False", "BurnsHot")
    said: list[str] = []
    with Proxy(api_server(cluster)) as proxy, connected(through(cluster, proxy)["KUBECONFIG"]) as api:
        informer = Informer(Api(api), Lens(rules), said.append)
        informer.start()
        try:
            assert informer.synced.wait(30)
            assert {one, two} <= informer.nodes.take_changed()
            proxy.cut()
            wait_until(lambda: informer.reconnects)
            cluster.condition(two, "ToasterReady", "False", "BurnsHot")
            with another_api_server(cluster) as address:
                proxy.lead_to(address)
                proxy.mend()
                wait_until(lambda: informer.lists == 2, str(said))
                changed = informer.nodes.take_changed()
                assert two in changed
                assert one not in changed
                # And it watches again.
                cluster.condition(one, "ToasterReady", "True", "Cool")
                wait_until(lambda: one in informer.nodes.take_changed())
        finally:
            informer.stop()


async def test_another_replica_waits_and_takes_over(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    first, second = node_group(2).nodes
    with cluster.watching() as active:
        waiting = cluster.start()
        wait_until(waiting.is_healthy)
        cluster.condition(first, "ToasterReady", "False", "BurnsHot")
        sent(active, 1)
        assert not waiting.metric("active")
        active.process.kill()
        cluster.condition(second, "ToasterReady", "False", "BurnsHot")
        wait_until(lambda: waiting.metric("active"))
        sent(waiting, 1)
        waiting.process.terminate()
        waiting.process.wait(PATIENCE_S)
    assert len(await cluster.reports(first)) == len(await cluster.reports(second)) == 1
    # Stopped in order, it gives the Lease back, so that nobody waits for it to expire.
    lease = cluster.leases.read_namespaced_lease(WATCH_CLUSTER, cluster.namespace)
    assert not lease.spec.holder_identity


async def test_many_nodes_away_at_once_look_like_an_outage(cluster: Cluster, node_group: MakeNodeGroup) -> None:
    """Pitfall 2 of storms: an outage of the control plane is not N dead nodes."""
    one, two, other = node_group(3).nodes
    for node in (one, two):
        cluster.annotate(node, "nodemend.local/unready", "true")
        cluster.condition(node, "Ready", "Unknown", "NodeStatusUnknown", ago_s=1200)
    cluster.condition(other, "ToasterReady", "False", "BurnsHot")
    # These nodes were made a moment ago, and who still starts does not count.
    with cluster.watching(NODEMEND_OUTAGE_SHARE="0.001", NODEMEND_NOT_READY_S="1") as replica:
        wait_until(lambda: replica.metric("outage"))
        wait_until(lambda: replica.metric("nodes_not_ready") == 2)
        for node in (one, two, other):
            assert not await cluster.reports(node)
        assert "outage of the control plane" in replica.text()
        assert replica.is_healthy()
        cluster.annotate(two, "nodemend.local/unready", None)
        sent(replica, 2)
    assert [report.rule for report in await cluster.reports(one)] == ["node-not-ready"]
    assert [report.rule for report in await cluster.reports(other)] == ["toaster-burns"]
    assert not await cluster.reports(two)
