"""How both detectors call the API server: found by the surroundings, bounded in time, errors that say what to do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kubernetes import config
from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from detector.trouble import Trouble


class Missing(Trouble):
    """404. Where nobody expects it, it passes: the Node was just deleted, say."""


class Conflict(Trouble):
    """409: somebody else was faster, or another Node has the name now."""


class Gone(Trouble):
    """410: so old a version is no longer known."""


def configure() -> None:
    """Have the client use the pod's service account, or what KUBECONFIG says.

    Raises:
        Trouble: there is no cluster configured.
    """
    try:
        # Not `load_config`: it talks to standard output each time.
        if os.environ.get("KUBERNETES_SERVICE_HOST") and not os.environ.get("KUBECONFIG"):
            config.load_incluster_config()
        else:
            config.load_kube_config()
    except ConfigException as error:
        raise Trouble(
            f"No Kubernetes cluster is configured ({error}): run in a pod with a service account, or set KUBECONFIG."
        ) from error


@contextmanager
def translated(what: str, component: str) -> Iterator[None]:
    """Errors of the client in words.

    Args:
        what: the call, as a right is written: ``list nodes``.
        component: whose service account it is made with.

    Raises:
        Missing, Conflict, Gone, Trouble: as the API server answered, or did not.
    """
    try:
        yield
    except ApiException as error:
        kinds = {404: Missing, 409: Conflict, 410: Gone}
        if error.status in (401, 403):
            raise Trouble(
                f"Kubernetes refuses `{what}` ({error.reason}): grant it to the service account of {component} "
                "(docs/security.md lists what it needs)."
            ) from error
        kind = kinds.get(error.status or 0, Trouble)
        raise kind(f"Kubernetes answered {error.status} {error.reason} to `{what}`: it is tried again.") from error
    except (HTTPError, ValueError) as error:
        raise Trouble(
            f"The Kubernetes API cannot be reached for `{what}` ({type(error).__name__}): it is tried again."
        ) from error
