"""A cluster of many Nodes and nothing else: etcd and the API server, without controllers that would move anything."""

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config

from deploy.local import kubernetes as control_plane
from deploy.local.build import locate
from deploy.local.process import LOOPBACK, answers, running
from tests.watching_cluster.running import stamp

IMAGES = 40
"""As kubelets list them: most of a Node is names of images."""


@contextmanager
def api_server_alone(state_dir: Path) -> Iterator[Path]:
    """Run etcd and the API server. Yields an administrator's kubeconfig."""
    folder = state_dir / "kubernetes"
    folder.mkdir(parents=True)
    certificates, key, token = folder / "certificates", folder / "service-account.key", secrets.token_urlsafe(24)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key.write_text(control_plane._new_key())
    programs = locate()
    common: dict[str, Any] = {"state_dir": state_dir, "remedy": "", "grace": 0}
    with running(
        "etcd", control_plane._etcd(programs, folder), ports=2, ready=control_plane._etcd_ready, **common
    ) as etcd:
        command = control_plane._apiserver(programs, folder, certificates, key, etcd.ports[0])
        with running(
            "kube-apiserver",
            command,
            ports=1,
            ready=lambda ports: answers(
                f"https://{LOOPBACK}:{ports[0]}/readyz", token=token, ca=certificates / "apiserver.crt"
            ),
            **common,
        ) as api:
            kubeconfig = folder / "kubeconfig"
            url = f"https://{LOOPBACK}:{api.ports[0]}"
            kubeconfig.write_text(control_plane._kubeconfig(url, certificates / "apiserver.crt", token))
            yield kubeconfig


def name_of(number: int) -> str:
    """The name of a Node."""
    return f"ip-10-{number // 65536}-{number // 256 % 256}-{number % 256}.us-west-2.compute.internal"


def node(number: int) -> dict[str, Any]:
    """A Node of some 15 KB, as EKS has them."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock", "ReadonlyFilesystem", "NeuronHealth")
    now = stamp()
    times = {"lastTransitionTime": now, "lastHeartbeatTime": now}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready", **times}]
    conditions += [
        {"type": kind, "status": "False", "reason": f"{kind}IsFine", "message": f"{kind} is as it should be", **times}
        for kind in kinds
    ]
    registry = "123456789012.dkr.ecr.us-west-2.example.com/some-team/some-training-image"
    return {
        "metadata": {
            "name": name_of(number),
            "labels": {f"example.com/label-{index}": f"value-{index}" for index in range(30)},
            "annotations": {f"example.com/annotation-{index}": "x" * 60 for index in range(10)},
        },
        "spec": {"providerID": f"aws:///us-west-2a/i-{number:017x}"},
        "status": {
            "conditions": conditions,
            "images": [
                {
                    "names": [f"{registry}-{index}@sha256:{index:064x}", f"{registry}-{index}:2026.12.{index}"],
                    "sizeBytes": 10**9 + index,
                }
                for index in range(IMAGES)
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": f"{number:032x}",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.58-85.118.amzn2023.x86_64",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.3-eks",
                "machineID": f"{number:032x}",
                "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023",
                "systemUUID": f"{number:032x}",
            },
        },
    }


def create_nodes(kubeconfig: Path, number: int) -> None:
    """Make them, several at a time."""
    api: Any = config.new_client_from_config(config_file=str(kubeconfig))
    core: Any = client.CoreV1Api(api)
    with ThreadPoolExecutor(8) as threads:
        for answer in threads.map(
            lambda index: core.create_node(node(index), _preload_content=False).status, range(number)
        ):
            assert answer == 201
    api.close()


def beat(core: Any, number: int) -> None:
    """A kubelet refreshes its heartbeat."""
    core.patch_node_status(
        name_of(number),
        {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": stamp()}]}},
        _content_type="application/strategic-merge-patch+json",
        _preload_content=False,
    )


def break_node(core: Any, number: int) -> None:
    """A condition of a type that the tests' rules report at once."""
    now = stamp()
    condition = {"type": "ToasterReady", "status": "False", "reason": "BurnsHot", "message": json.dumps({"at": now})}
    core.patch_node_status(
        name_of(number),
        {"status": {"conditions": [{**condition, "lastTransitionTime": now, "lastHeartbeatTime": now}]}},
        _content_type="application/strategic-merge-patch+json",
        _preload_content=False,
    )
