"""Settings of ``nodemend watch-cluster``, all from the environment, as for the detector."""

import socket
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from contract.address import ListenAddress


class WatchSettings(BaseSettings):
    """``NODEMEND_*``, ``POD_NAMESPACE`` and ``POD_NAME`` of ``nodemend watch-cluster``."""

    model_config = SettingsConfigDict(
        env_prefix="NODEMEND_", env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True
    )

    cluster: Annotated[str, StringConstraints(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")] = Field(
        description="Name of the cluster: part of every incident id. Detectors and workers must use the same."
    )
    namespace: str = Field(
        default="default",
        validation_alias=AliasChoices("POD_NAMESPACE", "namespace"),
        description="Namespace of its Lease and ConfigMap, and of the detectors' Leases (downward API).",
    )
    identity: str = Field(
        default_factory=socket.gethostname,
        validation_alias=AliasChoices("POD_NAME", "identity"),
        description="Name of this replica in the Lease (downward API: metadata.name).",
    )
    cluster_rules_dir: Path | None = Field(
        default=None, description="Folder with more rules (*.yaml); what they describe takes the place of ours."
    )
    not_ready_s: float = Field(default=600.0, ge=0.0, description="So long NotReady or Unknown is reported.")
    outage_share: float = Field(
        default=0.3,
        gt=0.0,
        le=1.0,
        description="While a larger share of the nodes is NotReady, nothing of ours is sent: it looks like an outage "
        "of the control plane.",
    )
    ec2_poll_s: float = Field(
        default=300.0, ge=0.0, description="How often EC2 is asked for events and status checks; 0 for never."
    )
    ec2_queue_url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        description="SQS queue to which EventBridge sends what AWS Health says of EC2; empty: none.",
    )
    lease_poll_s: float = Field(
        default=120.0, ge=0.0, description="How often the detectors' Leases are looked at; 0 for never."
    )
    watch_address: ListenAddress = Field(
        default="127.0.0.1:20258", description="host:port of /metrics and /healthz; port 0 picks one."
    )
