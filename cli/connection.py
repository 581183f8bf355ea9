"""The command line's connection to Temporal, from the same settings as the ``temporal`` command's."""

import os
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from cli.errors import CommandError
from contract.names import ExitCode

_PATIENCE: Final = timedelta(seconds=10)


async def connect() -> Client:
    """Connect to what ``TEMPORAL_*`` names, once.

    Raises:
        CommandError: nobody answers there (69), the namespace is missing (78), or the credentials are refused (77).
    """
    try:
        config = ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        raise CommandError(
            f"Temporal's settings cannot be used: {error}.",
            "Check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_* and TEMPORAL_PROFILE.",
            ExitCode.CONFIG,
        ) from error
    config.setdefault("target_host", "localhost:7233")
    config.setdefault("namespace", "default")
    address, namespace = config["target_host"], config["namespace"]
    try:
        client = await Client.connect(**config, data_converter=pydantic_data_converter)
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=namespace), timeout=_PATIENCE
        )
    except RPCError as error:
        raise _refused(error, address, namespace) from error
    except (RuntimeError, OSError) as error:
        raise CommandError(
            f"Temporal at {address} cannot be reached: {error}.",
            "Check that it runs, and TEMPORAL_ADDRESS (`nodemend local status` shows a local stack's).",
            ExitCode.UNAVAILABLE,
        ) from error
    return client


def cluster() -> str:
    """The name of the cluster that commands are about.

    Raises:
        CommandError: it is not set.
    """
    name = os.environ.get("NODEMEND_CLUSTER", "")
    if not name:
        raise CommandError(
            "NODEMEND_CLUSTER is not set.", "Set it to the name that detectors and workers use.", ExitCode.CONFIG
        )
    return name


def _refused(error: RPCError, address: str, namespace: str) -> CommandError:
    if error.status is RPCStatusCode.NOT_FOUND:
        return CommandError(
            f"Temporal at {address} has no namespace {namespace!r}.",
            "Set TEMPORAL_NAMESPACE to the one that the workers use.",
            ExitCode.CONFIG,
        )
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
        return CommandError(
            f"Temporal at {address} refuses these credentials: {error.message}.",
            "Check TEMPORAL_API_KEY or the TEMPORAL_TLS_* certificate.",
            ExitCode.NO_PERMISSION,
        )
    return CommandError(
        f"Temporal at {address} does not answer: {error.message}.", "Try again, or look at it.", ExitCode.UNAVAILABLE
    )
