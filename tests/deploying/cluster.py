"""A cluster that has nothing of Nodemend until Helm installs it, and what plays the kubelet for the chart's pods.

KWOK runs the pods as objects. Their programs run here as processes: command, arguments and environment are those of
the pod that the API server admitted, and the token is one of the pod's service account, bound to that pod.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from deploy.local.kubernetes import write_private
from deploy.local.stack import Stack
from tests.deploying.rendering import ROOT, Json

KMSG = "/dev/kmsg"
_OPEN_ADDRESS = re.compile(r"^:\d+$")


@dataclass
class Kubelet:
    """Starts what is in the chart's pods. Each mount is a folder of its own under ``folder``."""

    stack: Stack
    namespace: str
    folder: Path

    def pods(self, component: str) -> list[Json]:
        """The component's pods that run."""
        with self.stack.kubernetes.connected() as api:
            core: Any = client.CoreV1Api(api)
            found = core.list_namespaced_pod(self.namespace, label_selector=f"app.kubernetes.io/component={component}")
            pods: list[Json] = [api.sanitize_for_serialization(pod) for pod in found.items]
        return [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]

    def kubeconfig(self, pod: Json) -> Path:
        """What the mounted token is to the process."""
        name, account = pod["metadata"]["name"], pod["spec"]["serviceAccountName"]
        with self.stack.kubernetes.connected() as api:
            core: Any = client.CoreV1Api(api)
            bound = {"apiVersion": "v1", "kind": "Pod", "name": name}
            spec = {"expirationSeconds": 3600, "audiences": [], "boundObjectRef": bound}
            answer = core.create_namespaced_service_account_token(account, self.namespace, {"spec": spec})
        config = yaml.safe_load(self.stack.kubernetes.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": answer.status.token}
        path = self.folder / f"kubeconfig-{name}"
        write_private(path, yaml.safe_dump(config))
        return path

    def mount(self, pod: Json) -> dict[str, Path]:
        """The volumes of the pod's container by their path in it; ConfigMaps as they are now."""
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounts: dict[str, Path] = {}
        for mount in pod["spec"]["containers"][0]["volumeMounts"]:
            if "configMap" in volumes[mount["name"]]:
                path = self.folder / f"config-{volumes[mount['name']]['configMap']['name']}"
                self.refresh(volumes[mount["name"]]["configMap"]["name"], path)
            else:
                path = self.folder / f"{mount['name']}-{pod['metadata']['name']}"
                if mount["mountPath"] == KMSG:
                    path.touch()
                else:
                    path.mkdir(exist_ok=True)
            mounts[mount["mountPath"]] = path
        return mounts

    def refresh(self, config_map: str, path: Path) -> None:
        """Write a ConfigMap's files, each at once, as the kubelet does when it has changed."""
        path.mkdir(exist_ok=True)
        with self.stack.kubernetes.connected() as api:
            core: Any = client.CoreV1Api(api)
            data = core.read_namespaced_config_map(config_map, self.namespace).data
        for name, text in data.items():
            (path / f"{name}.new").write_text(text)
            (path / f"{name}.new").replace(path / name)

    def environment(self, pod: Json, mounts: dict[str, Path]) -> dict[str, str]:
        """The container's environment. Paths are where they are here, and ports are free ones."""
        found: dict[str, str] = {}
        for entry in pod["spec"]["containers"][0]["env"]:
            value = entry.get("value", "")
            if "valueFrom" in entry:
                place: Any = pod
                for part in entry["valueFrom"]["fieldRef"]["fieldPath"].split("."):
                    place = place[part]
                value = str(place)
            for inside, here in mounts.items():
                if value == inside or value.startswith(f"{inside}/"):
                    value = f"{here}{value.removeprefix(inside)}"
                    break
            found[entry["name"]] = "127.0.0.1:0" if _OPEN_ADDRESS.match(value) else value
        return found

    @contextmanager
    def running(self, pod: Json) -> Iterator[Path]:
        """Run the container for the length of the block. Yields its log."""
        python, *arguments = pod["spec"]["containers"][0]["command"]
        assert python == "python"
        mounts = self.mount(pod)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            **self.environment(pod, mounts),
            "KUBECONFIG": str(self.kubeconfig(pod)),
            **({"NODEMEND_KMSG": str(mounts[KMSG])} if KMSG in mounts else {}),
        }
        log = self.folder / f"{pod['metadata']['name']}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments], env=environment, cwd=ROOT, stderr=output, stdout=output
            )
        try:
            yield log
        finally:
            process.terminate()
            code = process.wait(60)
        assert code == 0, f"{' '.join(arguments)} did not end gracefully: {code}\n{log.read_text()[-2000:]}"
