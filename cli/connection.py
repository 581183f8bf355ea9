"""The command line's connection to Temporal, from the same settings as the ``temporal`` command's."""

import asyncio
import os
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode

from cli.errors import CommandError
from contract.first_call import FirstCall, denied, first_call
from contract.names import ExitCode
from contract.payload_codec import data_converter
from contract.payload_keys import KeyringError

_PATIENCE_S: Final = 10.0
_UI_SETTING: Final = "NODEMEND_UI_URL"
_CLOUD: Final = (".tmprl.cloud", ".api.temporal.io")
_CLOUD_UI: Final = "https://cloud.temporal.io"
_LOCAL: Final = "`nodemend local status` shows a local stack's."


async def connect() -> Client:
    """Connect to what ``TEMPORAL_*`` names, once.

    Raises:
        CommandError: nobody answers there (69), the namespace or a setting is wrong (78), or the credentials are
            refused (77).
    """
    config, converter = _settings(), load_converter()
    address, namespace = config["target_host"], config["namespace"]
    try:
        async with asyncio.timeout(_PATIENCE_S):
            client = await Client.connect(**config, data_converter=converter, runtime=_quiet_runtime())
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    except RPCError as error:
        raise explained(error) from error
    except TimeoutError as error:
        raise _explained(address, first_call(f"no answer within {_PATIENCE_S:.0f} s")) from error
    except (RuntimeError, ValueError, OSError) as error:
        raise _explained(address, first_call(str(error))) from error
    return client


def load_converter() -> DataConverter:
    """How payloads are written and read, as the workers do it.

    Raises:
        CommandError: the keys that are set cannot be used.
    """
    try:
        return data_converter(os.environ)
    except KeyringError as error:
        raise CommandError(error.what, error.remedy, ExitCode.CONFIG) from error


def _quiet_runtime() -> Runtime:
    """The SDK's core logs each retry to the terminal, into live views and JSON: what matters is raised anyway."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(TelemetryFilter("ERROR", "ERROR"))))


def explained(error: RPCError) -> CommandError:
    """What an error of Temporal means to whoever gave a command."""
    config = _settings()
    address, namespace = config["target_host"], config["namespace"]
    if error.status is RPCStatusCode.NOT_FOUND and "amespace" in error.message:
        return CommandError(
            f"Temporal at {address} has no namespace {namespace!r}.",
            "Set TEMPORAL_NAMESPACE to the one that the workers use.",
            ExitCode.CONFIG,
        )
    if error.status is RPCStatusCode.NOT_FOUND:
        return CommandError(
            f"Temporal does not have it (any more): {error.message}.",
            "`nodemend status --all` lists what there is.",
            ExitCode.NO_INPUT,
        )
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
        return _explained(address, denied(error.message))
    return CommandError(
        f"Temporal at {address} does not answer: {error.message}.", "Try again, or look at it.", ExitCode.UNAVAILABLE
    )


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


def page_of(client: Client, incident: str) -> str:
    """The incident's page in the Temporal UI; empty where nobody said where that is: the server does not know."""
    base = os.environ.get(_UI_SETTING, "").rstrip("/")
    if not base and client.service_client.config.target_host.rpartition(":")[0].endswith(_CLOUD):
        base = _CLOUD_UI
    return f"{base}/namespaces/{client.namespace}/workflows/{incident}" if base else ""


def _settings() -> ClientConnectConfig:
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
    if "://" in config["target_host"]:
        raise CommandError(
            f"TEMPORAL_ADDRESS is {config['target_host']}, which is a URL.",
            "Give host and port alone, such as temporal.example:7233.",
            ExitCode.CONFIG,
        )
    return config


def _explained(address: str, call: FirstCall) -> CommandError:
    remedy = f"{call.remedy} {_LOCAL}" if call.code == ExitCode.UNAVAILABLE else call.remedy
    return CommandError(f"Temporal at {address} {call.what}.", remedy, call.code)
