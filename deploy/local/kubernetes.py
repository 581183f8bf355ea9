"""The real Kubernetes control plane on loopback, with KWOK as the kubelets.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs; nodes and pods are objects
whose status KWOK writes (``kwok.yaml``). ``exec`` into a pod runs a real local command through the API server.
Flags and their reasons were found by trying; nothing here is fit for a cluster that matters.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes import config

from deploy.components import Component
from deploy.local.build import ControlPlane, locate
from deploy.local.process import LOOPBACK, answers, running

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_REMEDY: Final = "Free memory or disk space on this machine, then start the stack again."
_MANAGER: Final = "kube-controller-manager"
_SCHEDULER: Final = "kube-scheduler"
_STAGES: Final = Path(__file__).with_name("kwok.yaml")
STATE_DIR_VARIABLE: Final = "NODEMEND_STATE_DIR"
"""Names, to commands that ``exec`` runs, the folder in which pods keep what outlives them."""
_AUDIT_LOG: Final = "audit.jsonl"
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    # What Nodemend itself calls, by which its rights are derived (``deploy/rights``); nobody else's calls.
    "rules": [{"level": "Metadata", "users": [component.user for component in Component]}, {"level": "None"}],
}
LEASE_S: Final = 40
"""How long a kubelet's Lease lasts by default (``nodeLeaseDurationSeconds``); it is renewed four times in that time."""
_GRACE_S: Final = 50
"""Silence after which the node lifecycle controller calls a node Unknown (``--node-monitor-grace-period``)."""


@dataclass(frozen=True)
class Kubernetes:
    """Where the control plane is. The kubeconfig is an administrator's."""

    url: str
    kubeconfig: Path
    audit_log: Path
    """Every call of Nodemend's own service accounts: one JSON event a line."""
    pids: tuple[int, ...]

    def client(self) -> "ApiClient":
        """An administrator's client, which the caller closes. Where a block is enough, ``connected`` does it."""
        return config.new_client_from_config(config_file=str(self.kubeconfig))

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A client for the length of the block. (Any: the stubs know none of the methods that close it.)"""
        api: Any = self.client()
        try:
            yield api
        finally:
            api.close()


@contextmanager
def running_kubernetes(state_dir: Path, exec_dir: Path, kubelet_lease_s: int) -> Iterator[Kubernetes]:
    """Run the control plane for the length of the block.

    Args:
        state_dir: everything it writes.
        exec_dir: working directory of commands that ``exec`` runs, and the value of ``NODEMEND_STATE_DIR`` there.
        kubelet_lease_s: how long a Lease of the kubelets that KWOK plays lasts; a quarter of it is their heartbeat.

    Raises:
        StackError: it is not built, or a part did not start.
    """
    programs = locate()
    folder = state_dir / "kubernetes"
    folder.mkdir(parents=True, exist_ok=True)
    token, key = secrets.token_urlsafe(24), folder / "service-account.key"
    write_private(folder / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
    write_private(key, _new_key())
    with ExitStack() as stack:
        etcd = stack.enter_context(
            running(
                "etcd",
                _etcd(programs, folder),
                ports=2,
                ready=_etcd_ready,
                state_dir=state_dir,
                remedy=_REMEDY,
                grace=0,
            )
        )
        certificates = folder / "certificates"
        api = stack.enter_context(
            running(
                "kube-apiserver",
                _apiserver(programs, folder, certificates, key, etcd.ports[0]),
                ports=1,
                ready=lambda ports: answers(
                    f"https://{LOOPBACK}:{ports[0]}/readyz", token=token, ca=certificates / "apiserver.crt"
                ),
                state_dir=state_dir,
                remedy=_REMEDY,
                grace=0,
            )
        )
        url = f"https://{LOOPBACK}:{api.ports[0]}"
        kubeconfig = folder / "kubeconfig"
        write_private(kubeconfig, _kubeconfig(url, certificates / "apiserver.crt", token))
        others = [
            running(name, command, ports=1, ready=ready, state_dir=state_dir, remedy=_REMEDY, grace=0)
            for name, command, ready in (
                (
                    _MANAGER,
                    _controller_manager(programs, folder, kubeconfig, key, kubelet_lease_s),
                    _served(_MANAGER, folder),
                ),
                (_SCHEDULER, _scheduler(programs, folder, kubeconfig), _served(_SCHEDULER, folder)),
                ("kwok", _kwok(programs, folder, kubeconfig, exec_dir, kubelet_lease_s), _kwok_ready),
            )
        ]
        with ThreadPoolExecutor(max_workers=len(others)) as starters:
            pids = [process.pid for process in starters.map(stack.enter_context, others)]
        yield Kubernetes(url=url, kubeconfig=kubeconfig, audit_log=folder / _AUDIT_LOG, pids=(etcd.pid, api.pid, *pids))


Command = Callable[[Sequence[int]], list[str]]


def _etcd(programs: ControlPlane, folder: Path) -> Command:
    def command(ports: Sequence[int]) -> list[str]:
        client, peer = (f"http://{LOOPBACK}:{port}" for port in ports)
        return [
            str(programs.etcd), f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]  # fmt: skip

    return command


def _etcd_ready(ports: Sequence[int]) -> bool:
    return answers(f"http://{LOOPBACK}:{ports[0]}/health")


def _apiserver(programs: ControlPlane, folder: Path, certificates: Path, key: Path, etcd_port: int) -> Command:
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT_POLICY))

    def command(ports: Sequence[int]) -> list[str]:
        return [
            str(programs.kube_apiserver),
            f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
            f"--secure-port={ports[0]}", f"--bind-address={LOOPBACK}", f"--advertise-address={LOOPBACK}",
            f"--cert-dir={certificates}", f"--token-auth-file={folder / 'tokens.csv'}",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24",
            # Pods here need no token, and the tokens controller would only slow their creation.
            "--disable-admission-plugins=ServiceAccount",
            f"--audit-policy-file={policy}", f"--audit-log-path={folder / _AUDIT_LOG}",
            "--allow-privileged", "--kubelet-preferred-address-types=InternalIP",
        ]  # fmt: skip

    return command


def _controller_manager(programs: ControlPlane, folder: Path, kubeconfig: Path, key: Path, lease_s: int) -> Command:
    def command(ports: Sequence[int]) -> list[str]:
        return [
            str(programs.kube_controller_manager), *_component(folder, _MANAGER, kubeconfig, ports),
            "--use-service-account-credentials", f"--service-account-private-key-file={key}",
            "--controllers=*,-nodeipam,-route,-cloud-node-lifecycle",
            f"--node-monitor-grace-period={max(_GRACE_S, lease_s)}s",
        ]  # fmt: skip

    return command


def _scheduler(programs: ControlPlane, folder: Path, kubeconfig: Path) -> Command:
    def command(ports: Sequence[int]) -> list[str]:
        return [str(programs.kube_scheduler), *_component(folder, _SCHEDULER, kubeconfig, ports)]

    return command


def _component(folder: Path, name: str, kubeconfig: Path, ports: Sequence[int]) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}", f"--secure-port={ports[0]}", f"--bind-address={LOOPBACK}",
        f"--cert-dir={folder / name}", "--leader-elect=false",
    ]  # fmt: skip


def _served(name: str, folder: Path) -> Callable[[Sequence[int]], bool]:
    return lambda ports: answers(f"https://{LOOPBACK}:{ports[0]}/healthz", ca=folder / name / f"{name}.crt")


def _kwok(programs: ControlPlane, folder: Path, kubeconfig: Path, exec_dir: Path, lease_s: int) -> Command:
    exec_dir.mkdir(parents=True, exist_ok=True)
    configuration = folder / "kwok.yaml"
    state = {"name": STATE_DIR_VARIABLE, "value": str(exec_dir)}
    local_exec = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterExec",
        "metadata": {"name": "local"},
        "spec": {"execs": [{"local": {"workDir": str(exec_dir), "envs": [state]}}]},
    }
    configuration.write_text(f"{_STAGES.read_text()}---\n{yaml.safe_dump(local_exec)}")

    def command(ports: Sequence[int]) -> list[str]:
        return [
            str(programs.kwok), f"--kubeconfig={kubeconfig}", f"--config={configuration}", "--manage-all-nodes=true",
            f"--node-lease-duration-seconds={lease_s}", f"--server-address={LOOPBACK}:{ports[0]}",
            f"--node-ip={LOOPBACK}", f"--node-port={ports[0]}",
        ]  # fmt: skip

    return command


def _kwok_ready(ports: Sequence[int]) -> bool:
    return answers(f"http://{LOOPBACK}:{ports[0]}/healthz")


def _kubeconfig(url: str, certificate: Path, token: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": {"server": url, "certificate-authority": str(certificate)}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
            "current-context": "local",
        }
    )


def _new_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone may read."""
    path.touch(mode=0o600)
    path.write_text(text)
