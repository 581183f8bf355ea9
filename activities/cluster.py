"""The Kubernetes API as the acts use it: plain JSON objects, bounded in time, with errors that say what to do.

Objects are the API's own JSON (``kubectl get -o json``): at a thousand nodes the typed client costs ten times more.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes import client
from kubernetes.client import ApiException
from pydantic_core import from_json
from temporalio.exceptions import ApplicationError
from urllib3.exceptions import HTTPError

from activities.errors import failure
from contract.names import EVENT_SOURCE, ErrorType

Json = dict[str, Any]

_TIMEOUT_S: Final = (5.0, 30.0)
"""Connect and read."""
_WATCH_S: Final = 240
"""How long one watch lasts; the API server ends it then, and it is begun anew."""
_WATCH_TIMEOUT_S: Final = (5.0, 90.0)
"""Connect and read. The API server sends a bookmark a minute, so ninety silent seconds mean a dead connection."""
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"


class ConflictError(Exception):
    """The object was changed by somebody else since it was read: read it again."""


class Cluster:
    """One cluster. Safe to use from several threads."""

    def __init__(self, api: Any) -> None:
        # Any: the stubs of this client are older than the client.
        self._core: Any = client.CoreV1Api(api)
        self._apps: Any = client.AppsV1Api(api)
        self._policy: Any = client.PolicyV1Api(api)
        self._coordination: Any = client.CoordinationV1Api(api)
        self._storage: Any = client.StorageV1Api(api)
        self.address = str(api.configuration.host)
        self.api = api

    def node(self, name: str) -> Json | None:
        """A Node, or None."""
        return self._get("get nodes", self._core.read_node, name)

    def nodes(self) -> list[Json]:
        """All Nodes."""
        return self._list("list nodes", self._core.list_node)

    def patch_node(self, name: str, patch: Json) -> Json:
        """Merge-patch a Node; with ``metadata.resourceVersion`` only if it is unchanged.

        Raises:
            ConflictError: it is changed.
            ApplicationError: ``NodeGone``, or as for every call.
        """
        with self._calling("patch nodes", f"node {name}"):
            try:
                return _read(
                    self._core.patch_node(
                        name, patch, _content_type=_MERGE, _request_timeout=_TIMEOUT_S, _preload_content=False
                    )
                )
            except ApiException as error:
                if error.status == 409:
                    raise ConflictError(name) from error
                if error.status == 404:
                    raise failure(
                        ErrorType.NODE_GONE, f"The Node {name} is gone: there is nothing left to repair here."
                    ) from error
                raise

    def patch_conditions(self, node: Json, conditions: list[Json]) -> None:
        """Set or take away conditions of the very Node that was read, one by one: the list has many writers (C1)."""
        metadata = node["metadata"]
        path = f"/api/v1/nodes/{metadata['name']}/status"
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": conditions}}
        self.patch(path, patch, "patch nodes/status", _STRATEGIC)

    def delete_node(self, name: str, uid: str) -> None:
        """Delete this very Node object; another of the same name is left alone."""
        with self._calling("delete nodes", f"node {name}"):
            try:
                self._core.delete_node(
                    name, body={"preconditions": {"uid": uid}}, _request_timeout=_TIMEOUT_S, _preload_content=False
                )
            except ApiException as error:
                if error.status not in (404, 409):
                    raise

    def pods_on(self, node: str) -> list[Json]:
        """Every pod bound to a node."""
        return self.pods_and_version(node)[0]

    def pods_and_version(self, node: str) -> tuple[list[Json], str]:
        """Every pod bound to a node, and the version of the list, from which a watch goes on."""
        answer = self._answer("list pods", self._core.list_pod_for_all_namespaces, field_selector=_on(node))
        return answer["items"], answer["metadata"]["resourceVersion"]

    def watch_pods(self, node: str, version: str) -> "PodWatch":
        """What changes among the pods of a node from a version on."""
        with self._calling("watch pods", node):
            return PodWatch(
                self._core.list_pod_for_all_namespaces(
                    field_selector=_on(node),
                    resource_version=version,
                    watch=True,
                    allow_watch_bookmarks=True,
                    timeout_seconds=_WATCH_S,
                    _request_timeout=_WATCH_TIMEOUT_S,
                    _preload_content=False,
                )
            )

    def pod(self, namespace: str, name: str) -> Json | None:
        """A pod, or None."""
        return self._get("get pods", self._core.read_namespaced_pod, name, namespace)

    def pods_in(self, namespace: str, selector: str = "") -> list[Json]:
        """The pods of a namespace, those with certain labels (``key=value,…``) where a selector is given."""
        selectors = {"label_selector": selector} if selector else {}
        return self._list("list pods", self._core.list_namespaced_pod, namespace, **selectors)

    def namespace(self, name: str) -> Json | None:
        """A namespace, or None."""
        return self._get("get namespaces", self._core.read_namespace, name)

    def daemon_set(self, namespace: str, name: str) -> Json | None:
        """A DaemonSet, or None."""
        return self._get("get daemonsets", self._apps.read_namespaced_daemon_set, name, namespace)

    def disruption_budgets(self, namespace: str) -> list[Json]:
        """The PodDisruptionBudgets of a namespace."""
        return self._list("list poddisruptionbudgets", self._policy.list_namespaced_pod_disruption_budget, namespace)

    def load_balanced_services(self) -> list[Json]:
        """The Services of type LoadBalancer, of all namespaces."""
        call = self._core.list_service_for_all_namespaces
        return self._list("list services", call, field_selector="spec.type=LoadBalancer")

    def volume_attachments(self, node: str) -> list[Json]:
        """The VolumeAttachments of a node. The API has no selector for them, so all are read."""
        found = self._list("list volumeattachments", self._storage.list_volume_attachment)
        return [attachment for attachment in found if attachment["spec"]["nodeName"] == node]

    def volume_claim(self, namespace: str, name: str) -> Json | None:
        """A PersistentVolumeClaim, or None."""
        return self._get(
            "get persistentvolumeclaims", self._core.read_namespaced_persistent_volume_claim, name, namespace
        )

    def node_lease(self, name: str) -> Json | None:
        """The kubelet's Lease of a node, or None."""
        return self._get("get leases", self._coordination.read_namespaced_lease, name, "kube-node-lease")

    def evict(self, pod: Json, grace_period_s: int | None) -> None:
        """Ask for the eviction of this very pod, through the Eviction API.

        Raises:
            ApiException: the API's own answer, which the drain reads.
        """
        metadata = pod["metadata"]
        options: Json = {"preconditions": {"uid": metadata["uid"]}}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        with self._calling("create pods/eviction", f"pod {metadata['namespace']}/{metadata['name']}", raw=True):
            self._raw("POST", f"{path}/eviction", body, "application/json", _TIMEOUT_S[1])

    def delete_pod(self, pod: Json) -> bool:
        """Delete this very pod, with the grace period that it asks for. False when it is gone or has a successor."""
        metadata = pod["metadata"]
        with self._calling("delete pods", f"pod {metadata['namespace']}/{metadata['name']}"):
            try:
                self._core.delete_namespaced_pod(
                    metadata["name"],
                    metadata["namespace"],
                    body={"preconditions": {"uid": metadata["uid"]}},
                    _request_timeout=_TIMEOUT_S,
                    _preload_content=False,
                )
            except ApiException as error:
                if error.status not in (404, 409):
                    raise
                return False
        return True

    def proxied(self, method: str, path: str, body: Json | None, timeout_s: float) -> str:
        """Call a pod through the API server's proxy and return the text of its answer.

        Raises:
            ApiException: the answer is an error, of the pod or of the API server.
            HTTPError: there is none in time.
        """
        return self._raw(method, path, body, "application/json", timeout_s)

    def read(self, path: str, right: str) -> Json | None:
        """An object or a list of any kind, by its path; None where it, or its kind, is not there."""
        with self._calling(right, path):
            try:
                answer: Json = json.loads(self._raw("GET", path, None, "", _TIMEOUT_S[1]))
            except ApiException as error:
                if error.status == 404:
                    return None
                raise
        return answer

    def patch(self, path: str, patch: Json, right: str, how: str = _MERGE) -> None:
        """Patch an object of any kind, by its path. One that is gone is left so."""
        with self._calling(right, path):
            try:
                self._raw("PATCH", path, patch, how, _TIMEOUT_S[1])
            except ApiException as error:
                if error.status != 404:
                    raise

    def _raw(self, method: str, path: str, body: Json | None, content_type: str, timeout_s: float) -> str:
        headers = {"Accept": "*/*", **({"Content-Type": content_type} if body is not None else {})}
        call = self.api.param_serialize(method, path, header_params=headers, body=body, auth_settings=["BearerToken"])
        answer: Any = self.api.call_api(*call, _request_timeout=(_TIMEOUT_S[0], timeout_s))
        answer.read()
        if not 200 <= answer.status <= 299:
            raise ApiException(http_resp=answer)
        return str((answer.data or b"").decode(errors="replace"))

    def record_event(self, thing: Json, reason: str, message: str, *, key: str, warning: bool = False) -> bool:
        """An Event on a Node, or on what else says its own kind. The same ``key`` writes it once, however often.

        Returns whether it was not there yet.
        """
        metadata = thing["metadata"]
        namespace = metadata.get("namespace", "default")
        now = _now()
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{key}"[:253], "namespace": namespace},
            # With its UID: `kubectl describe node` finds Events by it.
            "involvedObject": {
                "apiVersion": thing.get("apiVersion", "v1"),
                "kind": thing.get("kind", "Node"),
                "name": metadata["name"],
                "uid": metadata["uid"],
                **({"namespace": namespace} if "namespace" in metadata else {}),
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": EVENT_SOURCE},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with self._calling("create events", f"an event on {metadata['name']}"):
            try:
                self._core.create_namespaced_event(namespace, body, _request_timeout=_TIMEOUT_S, _preload_content=False)
            except ApiException as error:
                if error.status != 409:
                    raise
                return False
        return True

    def _get(self, right: str, call: Any, name: str, *where: str) -> Json | None:
        with self._calling(right, name):
            try:
                return _read(call(name, *where, _request_timeout=_TIMEOUT_S, _preload_content=False))
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def _list(self, right: str, call: Any, *where: str, **selectors: str) -> list[Json]:
        items: list[Json] = self._answer(right, call, *where, **selectors)["items"]
        return items

    def _answer(self, right: str, call: Any, *where: str, **selectors: str) -> Json:
        with self._calling(right, " ".join([*where, *selectors.values()]) or "all"):
            return _read(call(*where, **selectors, _request_timeout=_TIMEOUT_S, _preload_content=False))

    def calling(self, right: str, what: str) -> AbstractContextManager[None]:
        """The errors of this API in words, for callers that reach what has no method here."""
        return self._calling(right, what)

    @contextmanager
    def _calling(self, right: str, what: str, *, raw: bool = False) -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            if raw and error.status and not _lacks_right(error):
                raise
            raise self._translated(error, right, what) from error
        except HTTPError as error:
            raise failure(
                ErrorType.UNREACHABLE,
                f"The Kubernetes API at {self.address} cannot be reached ({type(error).__name__}).",
                "It is tried again; check that it runs and that this worker may reach it.",
            ) from error

    def _translated(self, error: ApiException, right: str, what: str) -> ApplicationError:
        if error.status in (401, 403):
            return failure(
                ErrorType.ACCESS_DENIED,
                f"Kubernetes refuses `{right}` ({what}): {error.reason}.",
                "Grant it to the worker's service account and press `resume`.",
            )
        return failure(
            ErrorType.UNREACHABLE,
            f"The Kubernetes API at {self.address} answered {error.status} {error.reason} to `{right}` ({what}).",
            "It is tried again; if it lasts, look at the API server.",
        )


class PodWatch:
    """One watch: its events, until the API server ends it, the connection breaks, or ``stop`` is called."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[Json]:
        """The events, as the API sends them."""
        rest = b""
        try:
            for chunk in self._response.stream(2**16, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        except (HTTPError, OSError, ValueError):
            # Cut or stopped: what was missed is in the list that follows.
            return
        finally:
            self._response.close()

    def stop(self) -> None:
        """End it, from another thread too."""
        with suppress(HTTPError, OSError, ValueError, RuntimeError):
            self._response.shutdown()


def retry_on_conflict(attempt: Any, tries: int = 5) -> Any:
    """Call ``attempt`` again while somebody else was faster.

    Raises:
        ApplicationError: ``Conflict`` when that goes on; the act is retried later.
    """
    for _ in range(tries):
        try:
            return attempt()
        except ConflictError as error:
            last = error
    raise failure(
        ErrorType.CONFLICT, f"The object {last} is changed by somebody all the time. It is tried again."
    ) from last


def _lacks_right(error: ApiException) -> bool:
    """Whether the caller may not do this at all. A 403 may also be of the object, or of an admission policy."""
    if error.status == 401:
        return True
    # The authorizer's own words (k8s.io/apiserver, endpoints/handlers/responsewriters, forbiddenMessage).
    return error.status == 403 and " cannot " in str(error.body) and "in API group" in str(error.body)


def _on(node: str) -> str:
    return f"spec.nodeName={node}"


def _read(response: Any) -> Json:
    # A fleet's Nodes are tens of megabytes, and json takes nearly twice as long.
    answer: Json = from_json(response.data, cache_strings="keys")
    return answer


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
