"""The API server as ``watch-cluster`` uses it: plain JSON, bounded in time, errors that say what to do.

It reads Nodes and the detectors' Leases, and writes three things: an annotation of its own on Nodes, Events, and its
own Lease and ConfigMap. It can neither cordon, taint, evict nor delete.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from kubernetes import client

from contract.names import CLUSTER_FINDING_DIGESTS_ANNOTATION, WATCH_CLUSTER
from contract.proof import with_digest
from detector.api_server import Conflict, Missing, configure, translated
from detector.cluster.view import Json
from detector.trouble import Hopeless, Trouble

COMPONENT: Final = "watch-cluster"
PAGE: Final = 50
"""Nodes per page, some 15 KB each on EKS. A whole page, as text and as objects, is memory beside what is kept: pages of
250 cost 20 MB more."""
_CALL_S: Final = (5.0, 30.0)
"""Connect and read."""
_LEASE_CALL_S: Final = (2.0, 3.0)
"""A Lease that is held for ten seconds must be asked for more than once in them."""
_MERGE: Final = "application/merge-patch+json"
_TRIES: Final = 4


class Api:
    """One API server. Safe to use from several threads."""

    def __init__(self, api: Any) -> None:
        self.core: Any = client.CoreV1Api(api)
        self._leases: Any = client.CoordinationV1Api(api)

    @classmethod
    def connect(cls) -> "Api":
        """As the pod's service account, or as KUBECONFIG says.

        Raises:
            Trouble: there is no cluster configured.
        """
        configure()
        return cls(client.ApiClient())

    def pages(self, of: str, *where: str) -> Iterator[Json]:
        """A list in pages: ``nodes``, or ``leases`` of a namespace. All pages are of one version."""
        call = self.core.list_node if of == "nodes" else self._leases.list_namespaced_lease
        token = None
        while True:
            more: dict[str, Any] = {"_continue": token} if token else {}
            page = self._read(f"list {of}", call, *where, limit=PAGE, **more)
            yield page
            token = page["metadata"].get("continue")
            if not token:
                return

    def prove(self, node: str, uid: str, digest: str) -> Json:
        """Put a digest into the annotation of this very Node, and return the Node.

        Raises:
            Hopeless: it is gone, or another machine has its name (C16).
            Trouble: the API server cannot be reached or refuses.
        """
        for _ in range(_TRIES):
            found = self._node(node, uid)
            carried = (found["metadata"].get("annotations") or {}).get(CLUSTER_FINDING_DIGESTS_ANNOTATION, "")
            if digest in carried.split(","):
                return found
            # Read, changed and written as one: two replicas may be at it while one takes over from the other.
            patch = {
                "metadata": {
                    "uid": uid,
                    "resourceVersion": found["metadata"]["resourceVersion"],
                    "annotations": {CLUSTER_FINDING_DIGESTS_ANNOTATION: with_digest(carried, digest)},
                }
            }
            try:
                return self._read(f"patch nodes {node}", self.core.patch_node, node, patch, _content_type=_MERGE)
            except Conflict:
                continue
        raise Trouble(f"Node {node} is changed by somebody all the time: it is tried again.")

    def _node(self, name: str, uid: str) -> Json:
        try:
            found = self._read(f"get nodes {name}", self.core.read_node, name)
        except Missing as missing:
            raise Hopeless(f"the Node {name} is gone.") from missing
        if found["metadata"]["uid"] != uid:
            raise Hopeless(f"another machine has the name {name} now.")
        return found

    def event(
        self, node: str, uid: str, key: str, reason: str, message: str, first: str, last: str, count: int
    ) -> None:
        """An Event on a Node; the same key writes one, with the newest count (C12)."""
        name = f"{node}.{key}"[:253]
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid},
            "reason": reason[:128],
            "message": message[:1024],
            "type": "Warning",
            "source": {"component": WATCH_CLUSTER},
            "firstTimestamp": first,
            "lastTimestamp": last,
            "count": count,
        }
        try:
            self._read("create events", self.core.create_namespaced_event, "default", body)
        except Conflict:
            update = {"count": count, "lastTimestamp": last, "message": body["message"]}
            self._read("patch events", self.core.patch_namespaced_event, name, "default", update, _content_type=_MERGE)

    def lease(self, namespace: str, name: str) -> Json | None:
        """A Lease, or None."""
        try:
            return self._read("get leases", self._leases.read_namespaced_lease, name, namespace, within=_LEASE_CALL_S)
        except Missing:
            return None

    def write_lease(self, namespace: str, lease: Json) -> Json:
        """Create it, or replace the version that was read.

        Raises:
            Conflict: somebody else was faster.
        """
        if "resourceVersion" in lease["metadata"]:
            what, call = "update leases", self._leases.replace_namespaced_lease
            return self._read(what, call, lease["metadata"]["name"], namespace, lease, within=_LEASE_CALL_S)
        return self._read("create leases", self._leases.create_namespaced_lease, namespace, lease, within=_LEASE_CALL_S)

    def config_map(self, namespace: str, name: str) -> dict[str, str]:
        """What a ConfigMap holds; nothing when there is none."""
        try:
            return self._read("get configmaps", self.core.read_namespaced_config_map, name, namespace).get("data") or {}
        except Missing:
            return {}

    def change_config_map(self, namespace: str, name: str, changes: dict[str, str | None]) -> None:
        """Set some of its keys, and remove those that are None."""
        try:
            self._read(
                "patch configmaps",
                self.core.patch_namespaced_config_map,
                name,
                namespace,
                {"data": changes},
                _content_type=_MERGE,
            )
        except Missing:
            body = {
                "metadata": {"name": name},
                "data": {key: text for key, text in changes.items() if text is not None},
            }
            self._read("create configmaps", self.core.create_namespaced_config_map, namespace, body)

    def _read(
        self, what: str, call: Any, *arguments: Any, within: tuple[float, float] = _CALL_S, **options: Any
    ) -> Json:
        with translated(what, COMPONENT):
            answer = call(*arguments, **options, _request_timeout=within, _preload_content=False)
            found: Json = json.loads(answer.data)
            return found
