"""The worker's clients of Kubernetes and AWS, from the surroundings that kubectl and the AWS command line use too."""

import os
from typing import Any, Final

import boto3
import yaml
from botocore.exceptions import NoRegionError
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from activities.archive import Archive
from activities.auto_scaling import AutoScaling
from activities.cluster import Cluster
from activities.eviction import EVICTIONS_AT_ONCE
from activities.written import NotingApiClient
from contract.names import ExitCode
from worker.cloudwatch import CloudWatch
from worker.errors import StartError

ACTS_AT_ONCE: Final = 100
"""Acts that one worker process runs at once, each on a thread and with a connection of its own."""


def cluster_client() -> Cluster:
    """The cluster of the pod's service account, else of ``KUBECONFIG``.

    Raises:
        StartError: neither is there.
    """
    try:
        config.load_config()
    except (ConfigException, yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        # Of a kubeconfig that is no YAML, or of another shape, the client says what it stumbled over itself.
        raise StartError(
            f"No Kubernetes cluster is configured: {' '.join(str(error).split()).rstrip('.')}.",
            "Set KUBECONFIG, or run in a pod with a service account.",
            ExitCode.CONFIG,
        ) from error
    # Any: the stubs of this client are older than the client.
    kind: Any = Configuration
    return cluster_by(kind.get_default_copy())


def cluster_by(configuration: Any) -> Cluster:
    """The cluster of a client's configuration."""
    # A connection for each act that may run at once, for the watch of each drain and for each eviction: the client's
    # default of five a core makes the others wait for TLS.
    configuration.connection_pool_maxsize = 2 * ACTS_AT_ONCE + EVICTIONS_AT_ONCE
    return Cluster(NotingApiClient(configuration))


def aws_session() -> boto3.Session:
    """AWS as the surroundings configure it."""
    # botocore reads AWS_DEFAULT_REGION alone; AWS's other SDKs and its documentation say AWS_REGION.
    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)


def archive_client(address: str) -> Archive | None:
    """The bucket that keeps records; None where no address is set."""
    return Archive(aws_session(), address) if address else None


def cloudwatch() -> CloudWatch:
    """CloudWatch of the region in the surroundings.

    Raises:
        StartError: no region is set.
    """
    try:
        return CloudWatch(aws_session().client("cloudwatch"))
    except NoRegionError as error:
        raise _no_region("the cluster") from error


def auto_scaling_client() -> AutoScaling:
    """Auto Scaling and EC2 of the region in the surroundings (``AWS_REGION``, profile, instance role).

    Raises:
        StartError: no region is set.
    """
    try:
        return AutoScaling(aws_session())
    except NoRegionError as error:
        raise _no_region("the cluster's node groups") from error


def _no_region(of: str) -> StartError:
    return StartError("No AWS region is set.", f"Set AWS_REGION to the region of {of}.", ExitCode.CONFIG)
