"""Kubernetes objects by their path, as plain JSON: Jobs, ConfigMaps, and custom resources of other controllers.

``activities.cluster`` has what most acts need by name; this has the rest of the API with four verbs, so that a
NodeClaim or a Machine needs no client of its own.
"""

import json
from typing import Any, Final
from urllib.parse import urlencode

from kubernetes.client import ApiException

from activities.cluster import Cluster, ConflictError, Json

_TIMEOUT_S: Final = (5.0, 30.0)
_MERGE: Final = "application/merge-patch+json"


class Objects:
    """One cluster's objects. Safe to use from several threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def get(self, path: str) -> Json | None:
        """An object; None when it, or its whole kind, is not there.

        Raises:
            ApplicationError: as for every call of ``Cluster``.
        """
        return self._call("GET", path, absent=True)

    def list(self, path: str, **selectors: str) -> list[Json]:
        """The objects under a path; none where the cluster does not have the kind."""
        query = f"?{urlencode(selectors)}" if selectors else ""
        answer = self._call("GET", f"{path}{query}", absent=True)
        items: list[Json] = answer["items"] if answer else []
        return items

    def create(self, path: str, body: Json) -> Json | None:
        """Create an object; None when there is one of that name already."""
        try:
            return self._call("POST", path, body)
        except ConflictError:
            return None

    def patch(self, path: str, patch: Json) -> Json | None:
        """Merge-patch an object; None when it is gone.

        Raises:
            ConflictError: ``metadata.resourceVersion`` in the patch is not the object's any more.
        """
        return self._call("PATCH", path, patch, absent=True)

    def delete(self, path: str, *, uid: str | None = None, cascade: str = "Background") -> None:
        """Delete an object, this very one where its uid is given; fine when it is gone or another has its name."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": cascade}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self._call("DELETE", path, body, absent=True)
        except ConflictError:
            return

    def _call(self, verb: str, path: str, body: Json | None = None, *, absent: bool = False) -> Json | None:
        right = f"{verb.lower()} {path.partition('?')[0]}"
        api: Any = self._cluster.api
        content = _MERGE if verb == "PATCH" else "application/json"
        with self._cluster.calling(right, path):
            try:
                method, url, headers, sent, _ = api.param_serialize(
                    verb,
                    path,
                    header_params={"Accept": "application/json", "Content-Type": content},
                    body=body,
                    auth_settings=["BearerToken"],
                )
                response = api.call_api(method, url, headers, sent, _request_timeout=_TIMEOUT_S)
                data = response.read()
                if not 200 <= response.status <= 299:
                    raise ApiException(status=response.status, reason=response.reason)
            except ApiException as error:
                if error.status == 404 and absent:
                    return None
                if error.status == 409:
                    raise ConflictError(path) from error
                raise
        answer: Json = json.loads(data)
        return answer
