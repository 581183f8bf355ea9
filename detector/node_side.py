"""Delivery to the node's own Node object: condition, Event, heartbeat. Never another node, never another's condition.

Conditions are merged by their type (strategic merge), so those of the kubelet and of others are left as they are;
the transition time changes only with the status (C1, C4).
"""

import hashlib
import json
import os
import time
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes import client, config
from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from contract.names import EVENT_SOURCE
from detector.instance import is_instance_id
from detector.spool import STATE, Entry, read_json
from detector.trouble import Trouble

_CALL_S: Final = (5.0, 10.0)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_NODE_PATIENCE_S: Final = 600.0
"""After this long without its Node, an entry is given up on this side: Temporal has it, and decides."""
_NO_ERROR: Final = {"NeuronHealth": ("NeuronHasNoError", "Neuron has no error")}
"""What today's users see while nothing is wrong (the Neuron node problem detector's own words)."""


class NodeSide:
    """The API server, as far as one detector may use it."""

    def __init__(self, folder: str, node: str) -> None:
        self._folder = folder
        self._name = node
        self._core: Any = None
        self._absent_since: float | None = None

    def instance_id(self) -> str | None:
        """The EC2 instance id that the Node names; None when it names none.

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        node = self._node()
        provider_id = str(node["spec"].get("providerID", "")) if node else ""
        last = provider_id.rpartition("/")[2]
        return last if provider_id.startswith("aws:///") and is_instance_id(last) else None

    def deliver(self, entry: Entry) -> None:
        """Write the Event of an entry, and bring the conditions up to date.

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        node = self._node()
        if node is None:
            # The Node may register later; a finding must not block those after it for ever.
            self._absent_since = self._absent_since or time.monotonic()
            if time.monotonic() - self._absent_since < _NODE_PATIENCE_S:
                raise Trouble(f"There is no Node {self._name} in the cluster: check NODE_NAME. It is tried again.")
            return
        self._absent_since = None
        self._bring_up_to_date(node)
        self._write_event(node, entry)

    def heartbeat(self) -> None:
        """Refresh the conditions, so that silence means a dead detector (C5).

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        node = self._node()
        if node is not None:
            self._bring_up_to_date(node)

    def _bring_up_to_date(self, node: dict[str, Any]) -> None:
        state = read_json(os.path.join(self._folder, STATE))  # noqa: PTH118 - one style with the spool
        faults: dict[str, dict[str, Any]] = state.get("conditions", {})
        present = {condition["type"]: condition for condition in node["status"].get("conditions", [])}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = [
            merged_condition(kind, faults.get(kind), present.get(kind), now)
            for kind in state.get("condition_types", sorted(faults))
            if kind in faults or kind in present or kind in _NO_ERROR
        ]
        if wanted:
            self._call(
                f"patch nodes/status of {self._name}",
                self._api().patch_node_status,
                self._name,
                # The UID holds the patch to this very Node: names come back on other machines (C16).
                {"metadata": {"uid": node["metadata"]["uid"]}, "status": {"conditions": wanted}},
                _content_type=_STRATEGIC,
            )

    def _write_event(self, node: dict[str, Any], entry: Entry) -> None:
        reason, message, stamp = describe(entry)
        parts = (node["metadata"]["uid"], entry["boot_id"], entry["seq"], entry.get("signature", entry["kind"]))
        digest = hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:16]
        name = f"{self._name}.{digest}"[:253]
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            # With the UID: `kubectl describe node` finds Events by it, and those of a namesake stay apart (C12).
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Node",
                "name": self._name,
                "uid": node["metadata"]["uid"],
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning",
            "source": {"component": f"{EVENT_SOURCE}-detector", "host": self._name},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": int(entry.get("count", 1)),
        }
        try:
            self._call("create events", self._api().create_namespaced_event, "default", body)
        except _Conflict:
            update = {"count": body["count"], "lastTimestamp": stamp, "message": body["message"]}
            self._call(
                "patch events", self._api().patch_namespaced_event, name, "default", update, _content_type=_STRATEGIC
            )

    def _node(self) -> dict[str, Any] | None:
        try:
            response = self._call(f"get nodes {self._name}", self._api().read_node, self._name)
        except _Missing:
            return None
        node: dict[str, Any] = json.loads(response.data)
        return node

    def _api(self) -> Any:
        if self._core is None:
            try:
                config.load_config()
            except ConfigException as error:
                raise Trouble(
                    f"No Kubernetes cluster is configured ({error}): run in a pod with a service account, or set "
                    "KUBECONFIG."
                ) from error
            self._core = client.CoreV1Api()
        return self._core

    def _call(self, what: str, call: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options, _request_timeout=_CALL_S, _preload_content=False)
        except ApiException as error:
            if error.status == 404:
                raise _Missing from error
            if error.status == 409:
                raise _Conflict from error
            if error.status in (401, 403):
                raise Trouble(
                    f"Kubernetes refuses `{what}` ({error.reason}): grant it to the detector's service account."
                ) from error
            raise Trouble(
                f"Kubernetes answered {error.status} {error.reason} to `{what}`: it is tried again."
            ) from error
        except HTTPError as error:
            raise Trouble(
                f"The Kubernetes API cannot be reached ({type(error).__name__}): it is tried again."
            ) from error


class _Missing(Exception):  # noqa: N818
    """404."""


class _Conflict(Exception):  # noqa: N818
    """409."""


def merged_condition(
    kind: str, fault: dict[str, Any] | None, present: dict[str, Any] | None, now: str
) -> dict[str, str]:
    """The condition as it should be: ``True`` is faulty, as with the node problem detector. Pure."""
    if fault:
        status, reason, message = "True", str(fault["reason"]), str(fault["message"])
    else:
        status = "False"
        reason, message = _NO_ERROR.get(kind, (f"{kind}NoError", "No error is known"))
    same = present is not None and present.get("status") == status
    since = present["lastTransitionTime"] if same and present else now
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:1024],
        "lastTransitionTime": since,
        "lastHeartbeatTime": now,
    }


def describe(entry: Entry) -> tuple[str, str, str]:
    """Reason, message and time of the Event of an entry. Pure."""
    if entry["kind"] == "loss":
        lost = ", ".join(f"{number} {reason}" for reason, number in sorted(entry["records"].items()))
        return (
            "KernelRecordsLost",
            f"Kernel records could not be read: {lost}. A fault may have been missed: check the devices.",
            _whole_seconds(entry["seen"]),
        )
    drill = "Drill: " if entry.get("drill") else ""
    return (
        str(entry["reason"]),
        f"{drill}{entry['message']} (rule {entry['rule']}, {entry['verdict']}, seen {entry['count']} times)",
        _whole_seconds(entry["last_seen"]),
    )


def _whole_seconds(stamp: str) -> str:
    return stamp.partition(".")[0].rstrip("Z") + "Z"
