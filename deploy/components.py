"""The components of Nodemend that call the Kubernetes API, and their manifests: each has a service account of its own.

So each has rights of its own, an admission policy can tell them apart, and an audit log says who called.
"""

from enum import StrEnum
from pathlib import Path
from typing import Final

NAMESPACE: Final = "nodemend"
"""Where Nodemend runs, as the manifests are kept."""
RBAC: Final = Path(__file__).with_name("rbac")
"""What each component may call, derived from recorded calls (``python -m deploy.rights``)."""
ADMISSION: Final = Path(__file__).with_name("admission")
"""What each component may write into what it may call."""


class Component(StrEnum):
    """Who calls. The value is the name of its service account."""

    DETECTOR = "nodemend-detector"
    WATCH_CLUSTER = "nodemend-watch-cluster"
    WORKER = "nodemend-worker"

    @property
    def user(self) -> str:
        """Its user name, as the API server sees it."""
        return f"system:serviceaccount:{NAMESPACE}:{self}"

    @property
    def file_name(self) -> str:
        """Its manifest in the folders above."""
        return f"{self.removeprefix('nodemend-')}.yaml"
