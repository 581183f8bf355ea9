"""CloudWatch metrics, told beside the acts and never by them: a slow or absent CloudWatch delays no repair.

``NeuronHealthCheck`` is what AWS's Neuron recovery agent publishes: one metric per reason of the condition, by cluster
and instance. Alarms and Metrics Insights queries on it go on as they are. ``Nodemend`` is ours, for every component.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from contract.acts import Identified, IdentifyNode, NodeFacts, Proven, ProveReports, WriteRecord
from contract.fault import FaultReport
from contract.identity import NodeIdentity
from contract.names import CLOUDWATCH_NAMESPACE, NEURON_CLOUDWATCH_NAMESPACE, CloudWatchMetric

_log = logging.getLogger(__name__)

_NEURON_REASON: Final = "NeuronHasError_"
_WAITING_MAX: Final = 10_000
_BATCH_MAX: Final = 500
"""PutMetricData takes 1,000 metrics and 1 MB (API reference of CloudWatch)."""
_GATHER_S: Final = 5.0
_KNOWN_MAX: Final = 10_000

Datum = tuple[str, dict[str, Any]]


class CloudWatch:
    """A queue, and one thread that empties it."""

    def __init__(self, client: Any, gather_s: float = _GATHER_S) -> None:
        """``client``: boto3's ``cloudwatch``. ``gather_s``: how long data are gathered into one call."""
        self._client = client
        self._gather_s = gather_s
        self._waiting: queue.Queue[Datum | None] = queue.Queue(_WAITING_MAX)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="cloudwatch", daemon=True)
        self._thread.start()

    def faults(self, identity: NodeIdentity, reports: Iterable[FaultReport]) -> None:
        """Findings that were proven, each once in this process: an act that is tried again counts nothing twice."""
        for report in reports:
            if not self._is_new(report.key):
                continue
            if report.reason.startswith(_NEURON_REASON):
                by_machine = {"ClusterName": identity.cluster, "InstanceId": identity.instance_id or identity.node}
                self._put(NEURON_CLOUDWATCH_NAMESPACE, report.reason, by_machine)
            # Metrics Insights groups by dimensions that a metric has, and sums over no others: one count by each.
            for name, value in (("Reason", report.reason), ("NodeGroup", identity.group), ("NodeName", identity.node)):
                if value:
                    by_one = {"ClusterName": identity.cluster, name: value}
                    self._put(CLOUDWATCH_NAMESPACE, CloudWatchMetric.FAULTS, by_one)

    def closed(self, cluster: str, run_id: str, outcome: str) -> None:
        """An incident that ended."""
        if self._is_new(run_id):
            by_outcome = {"ClusterName": cluster, "Outcome": outcome}
            self._put(CLOUDWATCH_NAMESPACE, CloudWatchMetric.INCIDENTS_CLOSED, by_outcome)

    def stands(self, cluster: str, metric: CloudWatchMetric, value: int) -> None:
        """How something stands now."""
        self._put(CLOUDWATCH_NAMESPACE, metric, {"ClusterName": cluster}, value)

    def close(self) -> None:
        """Send what waits, within a few seconds."""
        while True:
            try:
                self._waiting.put_nowait(None)
                break
            except queue.Full:
                # Room for the word to stop; the oldest is worth least.
                with contextlib.suppress(queue.Empty):
                    self._waiting.get_nowait()
                    self._lost += 1
        self._thread.join(timeout=self._gather_s + 5.0)

    def _is_new(self, key: str) -> bool:
        with self._lock:
            if key in self._known:
                return False
            self._known[key] = None
            if len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)
            return True

    def _put(self, namespace: str, name: str, dimensions: dict[str, str], value: int = 1) -> None:
        datum = {
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
            "Timestamp": time.time(),
            "Value": float(value),
            "Unit": "Count",
        }
        try:
            self._waiting.put_nowait((namespace, datum))
        except queue.Full:
            self._lost += 1

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._gather()
            for namespace in sorted({place for place, _ in batch}):
                self._send(namespace, [datum for place, datum in batch if place == namespace])

    def _gather(self) -> tuple[list[Datum], bool]:
        first = self._waiting.get()
        if first is None:
            return [], False
        batch, until = [first], time.monotonic() + self._gather_s
        while len(batch) < _BATCH_MAX:
            try:
                following = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if following is None:
                return batch, False
            batch.append(following)
        return batch, True

    def _send(self, namespace: str, data: list[dict[str, Any]]) -> None:
        try:
            self._client.put_metric_data(Namespace=namespace, MetricData=data)
        except (BotoCoreError, ClientError) as error:
            self._lost += len(data)
            _log.warning(
                "CloudWatch does not take metrics of %s (%s): %d are lost since the start. Repairs go on. Grant "
                "cloudwatch:PutMetricData for this namespace, or unset NODEMEND_CLOUDWATCH.",
                namespace,
                error,
                self._lost,
            )


class MetricsInterceptor(Interceptor):
    """Tells CloudWatch what acts found, once they have answered."""

    def __init__(self, metrics: CloudWatch) -> None:
        self._metrics = metrics

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap an act."""
        return _Telling(next, self._metrics)


class _Telling(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, metrics: CloudWatch) -> None:
        super().__init__(following)
        self._metrics = metrics

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        answer = await super().execute_activity(input)
        argument = input.args[0] if input.args else None
        match argument, answer:
            case IdentifyNode(), NodeFacts(identified=Identified.FOUND, identity=NodeIdentity() as identity):
                proven = argument.reports if answer.proven is None else _among(argument.reports, answer.proven)
                self._metrics.faults(identity, proven)
            case ProveReports(), Proven():
                self._metrics.faults(argument.identity, _among(argument.reports, answer.keys))
            case WriteRecord(report=report), _ if report.outcome:
                self._metrics.closed(report.cluster, report.run_id, report.outcome)
        return answer


def _among(reports: tuple[FaultReport, ...], keys: tuple[str, ...]) -> list[FaultReport]:
    return [report for report in reports if report.key in keys]
