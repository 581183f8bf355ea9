"""The worker's connection to Temporal: patient while it is away, plain about what no patience mends."""

import asyncio
import logging
import os
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from temporalio.api.enums.v1 import IndexedValueType, TaskQueueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    OpenTelemetryConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import PayloadLimitsConfig, RPCError, RPCStatusCode

from contract.first_call import FirstCall, denied, first_call
from contract.names import ExitCode, SearchAttribute
from contract.payload_codec import data_converter
from contract.payload_keys import KeyringError
from worker.errors import StartError
from worker.metrics import metrics_config

_log = logging.getLogger(__name__)

_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_MEMO_WARN: Final = 32 * 1024
"""The memo carries the running report on purpose; the SDK's own warning starts at 2 KiB."""

_KINDS: Final = {
    name: IndexedValueType.INDEXED_VALUE_TYPE_BOOL
    if name is SearchAttribute.NEEDS_HUMAN
    else IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    for name in SearchAttribute
}


def make_runtime(metrics_address: str) -> Runtime:
    """The SDK's runtime, with metrics where they are wanted (``worker.metrics``).

    Raises:
        StartError: the address cannot be bound, or a setting of OTLP is wrong.
    """
    metrics = metrics_config(metrics_address, os.environ)
    # The SDK's own lines join ours: one JSON object a line on the error stream, and nothing else.
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    logs = LoggingConfig(filter=TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    try:
        return Runtime(telemetry=TelemetryConfig(metrics=metrics, logging=logs))
    except (RuntimeError, ValueError) as error:
        if isinstance(metrics, OpenTelemetryConfig):
            raise StartError(
                f"Metrics cannot be sent to {metrics.url}: {error}.",
                "Set OTEL_EXPORTER_OTLP_ENDPOINT to the OTLP/HTTP address of a collector.",
                ExitCode.CONFIG,
            ) from error
        raise StartError(
            f"Metrics cannot be served on {metrics_address}: {error}.",
            "Set NODEMEND_METRICS_ADDRESS to a free host:port, or to nothing.",
            ExitCode.CONFIG,
        ) from error


def load_connection() -> ClientConnectConfig:
    """Address, namespace, TLS and API key from ``TEMPORAL_*`` and Temporal's own configuration file.

    Raises:
        StartError: one of them cannot be used.
    """
    try:
        return ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        raise StartError(
            f"Temporal's settings cannot be used: {error}.",
            "Check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_* and TEMPORAL_PROFILE.",
            ExitCode.CONFIG,
        ) from error


def load_converter() -> DataConverter:
    """How payloads are written: closed, where ``NODEMEND_PAYLOAD_KEYS`` names keys.

    Raises:
        StartError: they cannot be used.
    """
    try:
        return data_converter(os.environ)
    except KeyringError as error:
        raise StartError(error.what, error.remedy, ExitCode.CONFIG) from error


async def connect(config: ClientConnectConfig, runtime: Runtime, identity: str) -> Client:
    """Connect, trying again for as long as it takes while nobody answers.

    Raises:
        StartError: Temporal answers, and refuses for good: wrong namespace or credentials.
    """
    converter = load_converter()
    config.setdefault("target_host", "localhost:7233")
    config.setdefault("namespace", "default")
    address, namespace = config["target_host"], config["namespace"]
    wait = _FIRST_WAIT_S
    while True:
        try:
            client = await Client.connect(
                **config,
                data_converter=converter,
                runtime=runtime,
                identity=identity,
                payload_limits=PayloadLimitsConfig(memo_warn_size=_MEMO_WARN),
            )
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=namespace), timeout=timedelta(seconds=10)
            )
            return client
        except RPCError as error:
            _refuse_for_good(error, address, namespace)
            call = first_call(error.message)
        except (RuntimeError, ValueError, OSError) as error:
            call = first_call(str(error))
            if call.code != ExitCode.UNAVAILABLE:
                raise _of(address, call) from error
        _log.warning(
            "Temporal at %s %s. Findings wait in the detectors' spools meanwhile. Trying again in %.0f s. %s",
            address,
            call.what,
            wait,
            call.remedy,
        )
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - jitter is no secret
        wait = min(wait * 2, _LONGEST_WAIT_S)


def _refuse_for_good(error: RPCError, address: str, namespace: str) -> None:
    if error.status is RPCStatusCode.NOT_FOUND:
        raise StartError(
            f"Temporal at {address} has no namespace {namespace!r}.",
            f"Create it (`temporal operator namespace create {namespace}`) or set TEMPORAL_NAMESPACE.",
            ExitCode.CONFIG,
        ) from error
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
        raise _of(address, denied(error.message)) from error


def _of(address: str, call: FirstCall) -> StartError:
    return StartError(f"Temporal at {address} {call.what}.", call.remedy, call.code)


async def register_search_attributes(client: Client) -> None:
    """See that every search attribute is there with its type: an upsert of a missing one wedges a workflow for ever.

    Raises:
        StartError: one is missing and may not be added from here, or has another type.
    """
    try:
        known = await known_search_attributes(client)
    except RPCError:
        # Without the right to list, adding says what is wrong.
        known = {}
    wrong = mistyped(known)
    if wrong:
        raise StartError(
            f"Search attributes exist with another type: {', '.join(wrong)}.",
            "Remove them in the namespace, or use a namespace of Nodemend's own.",
            ExitCode.CONFIG,
        )
    missing = {name: kind for name, kind in _KINDS.items() if name not in known}
    if not missing:
        return
    try:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace, search_attributes={str(name): kind for name, kind in missing.items()}
            ),
            timeout=timedelta(seconds=30),
        )
    except RPCError as error:
        if error.status is RPCStatusCode.ALREADY_EXISTS:
            return
        commands = " && ".join(
            f"temporal operator search-attribute create --namespace {client.namespace} --name {name} --type "
            + ("Bool" if name is SearchAttribute.NEEDS_HUMAN else "Keyword")
            for name in missing
        )
        raise StartError(
            f"Search attributes are missing and may not be added from here ({error.message}): {', '.join(missing)}.",
            f"Add them once: {commands}",
            ExitCode.CONFIG,
        ) from error
    _log.info("Search attributes registered: %s", ", ".join(missing))


async def known_search_attributes(client: Client) -> dict[str, int]:
    """The namespace's search attributes and their types.

    Raises:
        RPCError: they may not be listed, or Temporal does not answer.
    """
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), timeout=timedelta(seconds=30)
    )
    return {**answer.system_attributes, **answer.custom_attributes}


def mistyped(known: Mapping[str, int]) -> list[SearchAttribute]:
    """Our search attributes that exist with another type than ours: no worker starts there. Pure."""
    return [name for name, kind in _KINDS.items() if known.get(name, kind) != kind]


async def pollers(client: Client, queue: str) -> Sequence[PollerInfo]:
    """Who has asked a task queue for workflow tasks lately: Temporal forgets a poller after five minutes.

    Raises:
        RPCError: Temporal does not answer.
    """
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        ),
        timeout=timedelta(seconds=10),
    )
    return answer.pollers
