"""Settings of the worker, all from the environment. Temporal's own (``TEMPORAL_*``) are read by the SDK."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from contract.address import ListenAddress, OptionalListenAddress


class ProcessSettings(BaseSettings):
    """``NODEMEND_*`` of every process of the control plane. A missing or wrong one is refused by name."""

    model_config = SettingsConfigDict(env_prefix="NODEMEND_", extra="ignore", frozen=True)

    log_level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="Least severe log level."
    )


class WorkerSettings(ProcessSettings):
    """``NODEMEND_*`` of ``nodemend work``."""

    cluster: Annotated[str, StringConstraints(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")] = Field(
        description="Name of the cluster: part of every incident id. The detectors must use the same."
    )
    policy_file: Path | None = Field(
        default=None, description="YAML policy. Without one the default holds, which touches nothing (shadow)."
    )
    record_dir: Path = Field(default=Path("records"), description="Folder for incident reports and evidence.")
    record_s3: str = Field(
        default="",
        pattern=r"^(s3://[a-z0-9][a-z0-9.-]+(/.*)?)?$",
        description="s3://bucket/prefix for reports and audit logs, beside the folder; empty: none.",
    )
    record_webhook: SecretStr = Field(
        default=SecretStr(""), description="URL that closing reports are posted to, beside the folder; empty: none."
    )
    webhook_secret: SecretStr = Field(
        default=SecretStr(""), description="Signs what is posted there, as it signs the pager's webhooks."
    )
    namespace: str = Field(
        default="default",
        pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        description="Kubernetes namespace of the worker: the memory of machines that failed is kept there.",
    )
    health_address: ListenAddress = Field(
        default="127.0.0.1:8085", description="host:port of /healthz; port 0 picks one."
    )
    metrics_address: OptionalListenAddress = Field(
        default="127.0.0.1:9464", description="host:port of Prometheus metrics; empty: none."
    )
    reap_interval_s: float = Field(
        default=600.0,
        ge=0.0,
        description="How often nodes are looked for whose incident was terminated; 0 makes no schedule for it.",
    )
    cloudwatch: bool = Field(
        default=False, description="Tell CloudWatch of faults (namespaces NeuronHealthCheck and Nodemend)."
    )
