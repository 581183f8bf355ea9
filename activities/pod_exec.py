"""Running a command in a pod through the API server's exec subresource, bounded in time and output."""

import json
from dataclasses import dataclass
from typing import Any, Final

from kubernetes import client
from kubernetes.client import ApiException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL

from activities.cluster import Cluster
from activities.written import note
from contract.trail import System

_OUTPUT_MAX: Final = 256 * 1024


@dataclass(frozen=True)
class Answer:
    """What came back."""

    ok: bool
    output: str
    problem: str = ""
    """Why it is not ok, in words."""


def run_in_pod(
    cluster: Cluster, namespace: str, pod: str, command: list[str], timeout_s: float, *, container: str = ""
) -> Answer:
    """Run a command in a container, the first unless named. Never raises: what failed is in the answer."""
    # A client of its own: `stream` replaces the transport of the client that it is given.
    api: Any = client.ApiClient(cluster.api.configuration)
    try:
        answer: Any = stream(
            client.CoreV1Api(api).connect_get_namespaced_pod_exec,
            pod,
            namespace,
            command=command,
            **({"container": container} if container else {}),
            stdin=False,
            stdout=True,
            stderr=True,
            tty=False,
            _preload_content=False,
            _request_timeout=timeout_s,
        )
        note(System.KUBERNETES, "exec", f"/api/v1/namespaces/{namespace}/pods/{pod}", 101)
        try:
            answer.run_forever(timeout=timeout_s)
            output, errors = answer.read_stdout(timeout=0), answer.read_stderr(timeout=0)
            if answer.is_open():
                return Answer(False, output[:_OUTPUT_MAX], f"no answer within {timeout_s:.0f} s")
            ending = _ending(answer.read_channel(ERROR_CHANNEL))
        finally:
            answer.close()
            # close() does nothing where the server closed first, and would leave the socket open.
            answer.sock.shutdown()
    except ApiException as error:
        return Answer(False, "", f"exec was refused: {error.reason}")
    except Exception as error:  # websocket-client raises types of its own for each broken connection
        return Answer(False, "", f"exec broke off: {type(error).__name__}: {error}")
    finally:
        api.close()
    if ending:
        return Answer(False, output[:_OUTPUT_MAX], f"{ending}: {errors.strip()[-300:]}")
    return Answer(True, output[:_OUTPUT_MAX])


def _ending(status_text: str) -> str:
    """How the command ended, from the Status on the error channel; empty for success.

    The client's own ``returncode`` reads kubelet's Status alone, and breaks over any other.
    """
    try:
        status = json.loads(status_text)
    except ValueError:
        return f"ended without a status ({status_text[:120]!r})"
    if status.get("status") == "Success":
        return ""
    causes = (status.get("details") or {}).get("causes") or []
    code = next((cause.get("message") for cause in causes if cause.get("reason") == "ExitCode"), None)
    return f"ended with {code}" if code else f"failed ({str(status.get('message'))[:120]})"
