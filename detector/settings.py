"""Settings of the detector, all from the environment. Temporal's own (``TEMPORAL_*``) are read by the SDK."""

import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from contract.address import ListenAddress


class DetectorSettings(BaseSettings):
    """``NODEMEND_*`` and ``NODE_NAME`` of ``nodemend detect``."""

    model_config = SettingsConfigDict(
        env_prefix="NODEMEND_", env_ignore_empty=True, extra="ignore", frozen=True, populate_by_name=True
    )

    cluster: Annotated[str, StringConstraints(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")] = Field(
        description="Name of the cluster: part of every incident id. The workers must use the same."
    )
    node: str = Field(
        default_factory=socket.gethostname,
        validation_alias=AliasChoices("NODE_NAME", "node"),
        description="Name of the Node object that this detector runs on (downward API: spec.nodeName).",
    )
    kmsg: Path = Field(default=Path("/dev/kmsg"), description="The kernel log, or a file in its format.")
    spool_dir: Path = Field(default=Path("/var/lib/nodemend"), description="Folder on the host for spool and cursor.")
    rules_dir: Path | None = Field(default=None, description="Folder with more rules (*.yaml); they come first.")
    detector_address: ListenAddress = Field(
        default="127.0.0.1:20257", description="host:port of /metrics and /healthz; port 0 picks one."
    )
    delivery: Literal["temporal", "node"] = Field(
        default="temporal",
        description="Where findings go: `temporal`, or `node` where nodes hold no Temporal credentials: the Node "
        "carries them, and `nodemend watch-cluster` reports them.",
    )
    self_test_s: float = Field(
        default=0.0,
        ge=0.0,
        description="Every so many seconds a line is written to the kernel log and must come back; 0 for never. "
        "Needs write access to it.",
    )
    instance_id: str | None = Field(
        default=None,
        pattern=r"^i-[0-9a-f]{8,17}$",
        description="EC2 instance id, where neither DMI nor the Node should be asked.",
    )
