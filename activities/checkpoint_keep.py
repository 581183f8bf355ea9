"""Keeps a job's last good checkpoint from being deleted, where that can be done without asking the job.

A fault that spoils data leaves the job running, and jobs delete their old checkpoints as they save new ones: the last
good one could be gone before the job starts again. In a folder, hard links beside it cost no space and outlive a
deletion; in S3, a legal hold does, where the bucket has Object Lock. Nothing here is ever an error of the incident.
"""

from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from activities.checkpoint_declared import Declaration
from activities.checkpoint_manifest import Checkpoint
from activities.cluster import Cluster, Json
from activities.pod_exec import run_in_pod
from contract.words import counted

KEPT: Final = "nodemend-kept"
"""Folder beside the manifests. Whoever owns the job removes it, once the job is past."""
_FILES_MAX: Final = 500
_TIMEOUT_S: Final = 30.0
_NO_LOCK: Final = frozenset({"InvalidRequest", "ObjectLockConfigurationNotFoundError"})

# POSIX. A link that is there is made anew: the job may have saved the same step again since an earlier incident.
_LINK: Final = """\
cd -- "$1" || exit 1
kept=$2
shift 2
for name; do
  mkdir -p -- "$(dirname -- "$kept/$name")" && rm -f -- "$kept/$name" && ln -- "$name" "$kept/$name" || exit 1
done
"""


def keep(
    cluster: Cluster, s3: Callable[[], Any], pod: Json | None, declared: Declaration, checkpoint: Checkpoint
) -> str:
    """Keep a checkpoint. Returns where, or why it could not be, in words; doing it twice is doing it once.

    Args:
        cluster: where its pods are.
        s3: a client for manifests in S3.
        pod: one that runs and sees its files; None where none does.
        declared: where its manifests are.
        checkpoint: as its manifest has it.
    """
    if not declared.manifests or not checkpoint.source:
        return "not protected: it declares no manifests, so nobody knows its files"
    names = [*(entry.name for entry in checkpoint.files), checkpoint.source]
    if len(names) > _FILES_MAX:
        return (
            f"not protected: it has {counted(len(names) - 1, 'file')}, and at most {_FILES_MAX - 1} are linked or held"
        )
    if any(".." in name.split("/") for name in names):
        return "not protected: its manifest names files outside of its folder"
    if declared.manifests.startswith("s3://"):
        return _hold(s3, declared.manifests, names)
    if pod is None:
        return "not protected: none of its pods runs, through which its files could be linked"
    command = ["sh", "-c", _LINK, "sh", declared.manifests, KEPT, *names]
    where = pod["metadata"]
    answer = run_in_pod(cluster, where["namespace"], where["name"], command, _TIMEOUT_S, container=declared.container)
    if not answer.ok:
        return f"not protected: its files could not be linked into {declared.manifests}/{KEPT} ({answer.problem})"
    return f"kept in {declared.manifests}/{KEPT}: remove that once the job is past it"


def _hold(s3: Callable[[], Any], manifests: str, names: list[str]) -> str:
    bucket, _, prefix = manifests.removeprefix("s3://").partition("/")
    folder = f"{prefix.rstrip('/')}/" if prefix else ""
    try:
        client = s3()
        for name in names:
            client.put_object_legal_hold(Bucket=bucket, Key=f"{folder}{name}", LegalHold={"Status": "ON"})
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _NO_LOCK:
            return f"not protected: the bucket {bucket} has no Object Lock, so nothing in it can be held"
        return f"not protected: it could not be held in {bucket} ({error}): grant the worker s3:PutObjectLegalHold"
    except BotoCoreError as error:
        return f"not protected: it could not be held in {bucket} ({error})"
    return f"held in {bucket} (S3 legal hold on {counted(len(names), 'object')}): lift that once the job is past it"
