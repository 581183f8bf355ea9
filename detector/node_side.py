"""Delivery to the node's own Node object: condition, Event, heartbeat. Never another node, never another's condition.

Conditions are merged by their type (strategic merge), so those of the kubelet and of others are left as they are;
the transition time changes only with the status (C1, C4).
"""

import hashlib
import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from kubernetes import client
from kubernetes.client import ApiException
from pydantic import ValidationError

from contract.names import EVENT_SOURCE, FINDING_DIGESTS_ANNOTATION, FINDINGS_ANNOTATION
from contract.proof import digest, with_digest
from detector.api_server import Conflict, Missing, configure, translated
from detector.carried import with_report
from detector.conditions import LOG_HEALTH
from detector.evidence import device_count, neuron_counters
from detector.instance import is_instance_id, known_instance_id
from detector.reports import to_report
from detector.spool import STATE, Entry, read_json
from detector.trouble import Hopeless, Trouble

_CALL_S: Final = (5.0, 10.0)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_NODES: Final = "/api/v1/nodes"
_EVENTS: Final = "/api/v1/namespaces/default/events"
_LEASES: Final = "/apis/coordination.k8s.io/v1"
_NODE_PATIENCE_S: Final = 600.0
"""After this long without its Node, an entry is given up on this side: Temporal has it, and decides."""
_LEASE_S: Final = 600
"""Two heartbeats and some patience."""
_ALWAYS: Final = {
    "NeuronHealth": ("NeuronHasNoError", "Neuron has no error"),
    LOG_HEALTH: ("KernelLogIsRead", "The kernel log is read and findings are kept"),
}
"""What users see while nothing is wrong; the first in the Neuron node problem detector's own words."""


class NodeSide:
    """The API server, as far as one detector may use it."""

    def __init__(self, folder: str, cluster: str, node: str, *, whole_reports: bool = False) -> None:
        """``whole_reports``: the Node carries the findings themselves, for a watcher to report."""
        self._folder = folder
        self._cluster = cluster
        self._whole_reports = whole_reports
        self._name = node
        self._client: Any = None
        self._absent_since: float | None = None

    def instance_id(self) -> str | None:
        """The EC2 instance id that the Node names; None when it names none.

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        node = self._node()
        return instance_of(node) if node else None

    def deliver(self, entry: Entry) -> None:
        """Bring conditions and the proof of the finding up to date, and write the entry's Event.

        Raises:
            Trouble: the API server cannot be reached or refuses.
            Hopeless: there is no Node of this machine to write to.
        """
        node = self._own_node()
        self._bring_up_to_date(node, self._proof_of(entry, node))
        self._write_event(node, entry)

    def heartbeat(self) -> None:
        """Refresh the conditions and the Lease, so that silence means a dead detector (C5).

        Raises:
            Trouble: the API server cannot be reached or refuses.
        """
        try:
            node = self._own_node(patience_s=0.0)
        except Hopeless as hopeless:
            raise Trouble(str(hopeless)) from hopeless
        self._bring_up_to_date(node, {})
        if namespace := os.environ.get("POD_NAMESPACE"):
            self._renew_lease(node, namespace)

    def _own_node(self, patience_s: float = _NODE_PATIENCE_S) -> dict[str, Any]:
        """The Node of this very machine: names come back on other ones (C16)."""
        node = self._node()
        if node is None:
            why = f"There is no Node {self._name} in the cluster: check NODE_NAME."
        elif (found := instance_of(node)) and (own := known_instance_id(self._folder)) and found != own:
            why = f"The Node {self._name} is {found}, and this machine is {own}: nothing is written to another's Node."
        else:
            self._absent_since = None
            return node
        # The Node may register later; a finding must not block those after it for ever.
        self._absent_since = self._absent_since or time.monotonic()
        if time.monotonic() - self._absent_since < patience_s:
            raise Trouble(f"{why} It is tried again.")
        raise Hopeless(f"{why} Temporal has it, and decides.")

    def _proof_of(self, entry: Entry, node: dict[str, Any]) -> dict[str, str]:
        """The annotations that say that this finding is this node's own (``contract.proof``)."""
        if entry["kind"] != "finding":
            return {}
        try:
            report = to_report(entry, self._cluster, self._name, known_instance_id(self._folder) or instance_of(node))
        except ValidationError:
            return {}
        carried: dict[str, str] = node["metadata"].get("annotations") or {}
        annotations = {
            FINDING_DIGESTS_ANNOTATION: with_digest(carried.get(FINDING_DIGESTS_ANNOTATION, ""), digest(report))
        }
        if self._whole_reports:
            annotations[FINDINGS_ANNOTATION] = with_report(carried.get(FINDINGS_ANNOTATION, ""), report)
        return annotations

    def _bring_up_to_date(self, node: dict[str, Any], annotations: dict[str, str]) -> None:
        state = read_json(os.path.join(self._folder, STATE))  # noqa: PTH118 - one style with the spool
        faults: dict[str, dict[str, Any]] = dict(state.get("worst") or {})
        present = {condition["type"]: condition for condition in node.get("status", {}).get("conditions", [])}
        now = _now()
        if trouble := os.environ.get("NODEMEND_DETECTOR_TROUBLE"):
            # It cannot be in the state: the disk that holds it is the trouble.
            faults.setdefault(LOG_HEALTH, {"reason": "DetectorSpoolUnwritable", "message": trouble})
        types = sorted({*state.get("condition_types", ()), *faults, *_ALWAYS})
        wanted = [
            merged_condition(kind, faults.get(kind), present.get(kind), now)
            for kind in types
            if kind in faults or kind in present or kind in _ALWAYS
        ]
        self._call(
            f"patch nodes/status of {self._name}",
            "PATCH",
            f"{_NODES}/{self._name}/status",
            # The UID holds the patch to this very Node (C16).
            {
                "metadata": {"uid": node["metadata"]["uid"], "annotations": annotations},
                "status": {"conditions": wanted},
            },
        )

    def _renew_lease(self, node: dict[str, Any], namespace: str) -> None:
        """Say that the reader lives. A Lease that is not renewed is a finding of its own for whoever looks."""
        name = f"nodemend-detector-{self._name}"[:253]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": _LEASE_S, "renewTime": now}
        what, leases = f"renew the Lease {namespace}/{name}", f"{_LEASES}/namespaces/{namespace}/leases"
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        try:
            self._call(what, "PATCH", f"{leases}/{name}", {"spec": spec})
        except Missing:
            body = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {**spec, "acquireTime": now}}
            self._call(what, "POST", leases, body)

    def _write_event(self, node: dict[str, Any], entry: Entry) -> None:
        reason, message, first, last = describe(entry)
        parts = (node["metadata"]["uid"], *(entry.get(name) for name in ("boot_id", "seq", "kind", "signature")))
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
            "firstTimestamp": first,
            "lastTimestamp": last,
            "count": int(entry.get("count") or 1),
        }
        try:
            self._call("create events", "POST", _EVENTS, body)
        except Conflict:
            update = {"count": body["count"], "lastTimestamp": last, "message": body["message"]}
            # It may have expired in between; the next report of the same finding makes it again.
            with suppress(Missing):
                self._call("patch events", "PATCH", f"{_EVENTS}/{name}", update)

    def _node(self) -> dict[str, Any] | None:
        try:
            return self._call(f"get nodes {self._name}", "GET", f"{_NODES}/{self._name}")
        except Missing:
            return None

    def _api(self) -> Any:
        if self._client is None:
            configure()
            # Not `CoreV1Api`, which imports half a second of models: an incident waits for what this writes.
            self._client = client.ApiClient()
        return self._client

    def _call(self, what: str, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        api = self._api()
        sends = _STRATEGIC if verb == "PATCH" else "application/json"
        with translated(what, "detector"):
            method, url, headers, sent, _ = api.param_serialize(
                verb,
                path,
                header_params={"Accept": "application/json", "Content-Type": sends},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = api.call_api(method, url, headers, sent, _request_timeout=_CALL_S)
            data = response.read()
            if not 200 <= response.status <= 299:
                raise ApiException(status=response.status, reason=response.reason)
            answer: dict[str, Any] = json.loads(data)
            return answer


def instance_of(node: dict[str, Any]) -> str | None:
    """The EC2 instance id that a Node names; None when it names none. Pure."""
    provider_id = str(node.get("spec", {}).get("providerID", ""))
    last = provider_id.rpartition("/")[2]
    return last if provider_id.startswith("aws:///") and is_instance_id(last) else None


def merged_condition(
    kind: str, fault: dict[str, Any] | None, present: dict[str, Any] | None, now: str
) -> dict[str, str]:
    """The condition as it should be: ``True`` is faulty, as with the node problem detector. Pure."""
    if fault:
        status, reason, message = "True", str(fault["reason"]), str(fault["message"])
    else:
        status = "False"
        reason, message = _ALWAYS.get(kind, (f"{kind}NoError", "No error is known"))
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


def describe(entry: Entry) -> tuple[str, str, str, str]:
    """Reason, message, first and last time of the Event of an entry."""
    if entry["kind"] != "finding":
        seen = _whole_seconds(str(entry.get("seen") or _now()))
        message = str(entry.get("message", ""))
        if entry.get("reason") == "KernelRecordsLost":
            message += f" {probe()}"
        return str(entry.get("reason") or "DetectorNote"), message, seen, seen
    drill = "Drill: " if entry.get("drill") else ""
    try:
        return (
            str(entry["reason"]),
            f"{drill}{str(entry['message'])[:800]} (rule {entry['rule']}, {entry['verdict']}, seen {entry['count']} "
            f"times, boot {entry['boot_id']}, record {entry['seq']})",
            _whole_seconds(str(entry["first_seen"])),
            _whole_seconds(str(entry["last_seen"])),
        )
    except KeyError as error:
        raise Hopeless(f"it is damaged: it has no {error}.") from error


def probe() -> str:
    """What the devices themselves say, when a line may have been missed."""
    counters = neuron_counters()
    if counters:
        return "Counters of uncorrected errors: " + ", ".join(f"{name}={value}" for name, value in counters.items())
    devices = device_count()
    return f"{devices} Neuron devices are there, and none counts an uncorrected error." if devices else ""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _whole_seconds(stamp: str) -> str:
    return stamp.partition(".")[0].rstrip("Z") + "Z"
