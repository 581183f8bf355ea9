"""Delivery to Temporal: raw signal-with-start, with a request id of our own, so that twice is once.

The high-level client draws a request id per call; only the raw call lets a repeated delivery be recognised. The raw
service is also loaded in half the time, and every report waits for that.
"""

import json
import os
from datetime import timedelta
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from pydantic import BaseModel
from temporalio.api.common.v1 import Header, Payload, Payloads, WorkflowType
from temporalio.api.enums.v1 import WorkflowIdReusePolicy
from temporalio.api.sdk.v1 import UserMetadata
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import SignalWithStartWorkflowExecutionRequest
from temporalio.envconfig import ClientConfig
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

from contract.fault import FaultReport, RemediationRequest
from contract.first_call import FirstCall, denied, first_call
from contract.names import REMEDIATE_NODE, REPORT_FAULT, TASK_QUEUE, incident_id
from contract.payload_keys import Keyring, KeyringError, load_keyring
from contract.trace import TRACE_HEADER, carrier
from detector.trouble import Trouble

_CALL: Final = timedelta(seconds=10)
_SUMMARY_MAX: Final = 80


class TemporalSide:
    """One connection, made when the first report needs it."""

    def __init__(self) -> None:
        self._service: ServiceClient | None = None
        self._namespace = "default"
        self._keys: Keyring | None = None

    async def deliver(self, report: FaultReport) -> None:
        """Start the incident of this machine, or join the one that runs.

        Raises:
            Trouble: Temporal cannot be reached or refuses.
        """
        service = await self._connected()
        try:
            await service.workflow_service.signal_with_start_workflow_execution(
                _request(self._namespace, report, self._keys), timeout=_CALL
            )
        except RPCError as error:
            raise _trouble(error, service.config.target_host, self._namespace) from error

    async def _connected(self) -> ServiceClient:
        if self._service is None:
            try:
                config: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
            except (RuntimeError, ValueError, OSError) as error:
                raise Trouble(f"Temporal's settings cannot be used ({error}): check TEMPORAL_*.") from error
            config.setdefault("target_host", "localhost:7233")
            self._namespace = config.pop("namespace", self._namespace)
            try:
                self._keys = load_keyring(os.environ)
            except KeyringError as error:
                raise Trouble(str(error)) from error
            try:
                self._service = await ServiceClient.connect(ConnectConfig(**config))
            except (RuntimeError, ValueError, OSError) as error:
                raise _of(config["target_host"], first_call(str(error))) from error
        return self._service


def _request(namespace: str, report: FaultReport, keys: Keyring | None) -> SignalWithStartWorkflowExecutionRequest:
    start = RemediationRequest(
        cluster=report.cluster, node=report.node, instance_id=report.instance_id, drill=report.drill
    )
    return SignalWithStartWorkflowExecutionRequest(
        namespace=namespace,
        workflow_id=incident_id(report.cluster, report.node, report.instance_id, drill=report.drill),
        workflow_type=WorkflowType(name=REMEDIATE_NODE),
        task_queue=TaskQueue(name=TASK_QUEUE),
        input=Payloads(payloads=[_document(start, keys)]),
        signal_name=REPORT_FAULT,
        signal_input=Payloads(payloads=[_document(report, keys)]),
        identity=f"detector@{report.node}",
        request_id=report.request_id,
        header=Header(fields={TRACE_HEADER: _json(carrier(report.request_id), None)}),
        # The node may fail again later.
        workflow_id_reuse_policy=WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
        workflow_task_timeout=Duration(seconds=10),
        user_metadata=UserMetadata(
            summary=_text(_summary(report), keys),
            details=_text(f"```\n{report.message[:500].replace('```', chr(39) * 3)}\n```", keys),
        ),
    )


def _document(document: BaseModel, keys: Keyring | None) -> Payload:
    return _json(document.model_dump_json(), keys)


def _text(text: str, keys: Keyring | None) -> Payload:
    return _json(json.dumps(text), keys)


def _json(data: str, keys: Keyring | None) -> Payload:
    """As the SDK's JSON converter writes it (temporalio.converter, ``json/plain``), closed where there are keys."""
    plain = Payload(metadata={"encoding": b"json/plain"}, data=data.encode())
    return Payload(metadata=keys.metadata, data=keys.seal(plain.SerializeToString())) if keys else plain


def _summary(report: FaultReport) -> str:
    drill = "drill: " if report.drill else ""
    return f"{drill}{report.reason} · {report.node}"[:_SUMMARY_MAX]


def _trouble(error: RPCError, address: str, namespace: str) -> Trouble:
    if error.status is RPCStatusCode.NOT_FOUND:
        return Trouble(f"Temporal at {address} has no namespace {namespace!r}: create it or set TEMPORAL_NAMESPACE.")
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
        return _of(address, denied(error.message))
    return Trouble(f"Temporal at {address} did not take a report ({error.message}): it is tried again.")


def _of(address: str, call: FirstCall) -> Trouble:
    return Trouble(f"Temporal at {address} {call.what}. {call.remedy} It is tried again.")
