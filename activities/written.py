"""Notes every call that changes something outside while an act runs, where it is sent: no act can forget one.

Kubernetes' audit log and CloudTrail have the other half. What joins them to an incident is the id of the request.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubernetes.client import ApiClient

from contract.trail import OBJECT_MAX, ExternalWrite, System, Trail

if TYPE_CHECKING:
    import boto3

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_READS: Final = ("Describe", "Get", "List", "Search", "Head")
"""AWS names its actions so (IAM service authorization reference, access levels Read and List)."""
_PARAMETERS: Final = "nodemend_parameters"


class Writes:
    """What one attempt of an act wrote. Acts write from several threads."""

    def __init__(self, trail: Trail) -> None:
        """``trail``: of the attempts before."""
        self._trail = trail
        self._lock = threading.Lock()

    @property
    def trail(self) -> Trail:
        """As of now."""
        with self._lock:
            return self._trail

    def add(self, write: ExternalWrite) -> None:
        """One more."""
        with self._lock:
            self._trail = self._trail.wrote(write)


_WRITES: ContextVar[Writes | None] = ContextVar("writes", default=None)


@contextmanager
def noting(writes: Writes) -> Iterator[None]:
    """Note what is written in this context, and in the threads that take it along."""
    token = _WRITES.set(writes)
    try:
        yield
    finally:
        _WRITES.reset(token)


def note(system: System, verb: str, thing: str, status: int, *, version: str = "", request_id: str = "") -> None:
    """Note a write; outside of an act, nothing."""
    if writes := _WRITES.get():
        writes.add(
            ExternalWrite(
                at=datetime.now(UTC),
                system=system,
                verb=verb,
                object=thing[:OBJECT_MAX],
                status=status,
                version=version,
                request_id=request_id,
            )
        )


class NotingApiClient(ApiClient):
    """A client of Kubernetes whose writes are noted."""

    def call_api(self, method: str, url: str, *args: Any, **options: Any) -> Any:
        """Send a request."""
        # Any: the stubs of this client are older than the client.
        base: Any = super()
        answer = base.call_api(method, url, *args, **options)
        if (verb := _VERBS.get(method)) and _WRITES.get():
            # Read here, it is kept for whoever reads it after.
            data = answer.read()
            mine: Any = self
            path = url.removeprefix(str(mine.configuration.host)).partition("?")[0]
            audit_id = answer.headers.get("Audit-Id", "")
            note(System.KUBERNETES, verb, path, answer.status, version=_version(data), request_id=audit_id)
        return answer


def note_aws(session: "boto3.Session") -> None:
    """Have the writes of the clients noted that this session makes from now on."""
    session.events.register("provide-client-params.*.*", _remember)
    session.events.register("after-call.*.*", _noted)


def _remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context[_PARAMETERS] = params


def _noted(http_response: Any, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
    if model.name.startswith(_READS):
        return
    told = parsed.get("ResponseMetadata", {})
    note(
        System.AWS,
        f"{model.service_model.endpoint_prefix}:{model.name}",
        _ids(context.get(_PARAMETERS, {})),
        http_response.status_code,
        request_id=str(told.get("RequestId", "")),
    )


def _ids(parameters: dict[str, Any]) -> str:
    """What a call names: parameters that are names or ids, never bodies."""
    named = {
        key: value
        for key, value in parameters.items()
        if key.endswith(("Id", "Ids", "Name", "Names", "Instances", "Bucket", "Key"))
    }
    return " ".join(f"{key}={','.join(value) if isinstance(value, list) else value}" for key, value in named.items())


def _version(data: bytes | None) -> str:
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        return str(json.loads(data or b"")["metadata"].get("resourceVersion", ""))
    return ""
