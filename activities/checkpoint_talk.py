"""Talking with a job about its checkpoints: by ``exec``, by ``http`` through the API server, by reading manifests.

Nothing here decides. Whatever fails is in the answer, for a job's failure must not become an incident's.
"""

import urllib.parse
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from activities.checkpoint_declared import CheckpointMode, Declaration
from activities.checkpoint_keep import keep
from activities.checkpoint_manifest import Checkpoint, Known, Proof, incomplete, read_lines, read_manifests
from activities.cluster import Cluster, Json
from activities.pod_exec import run_in_pod

READ_TIMEOUT_S: Final = 30.0
_MANIFESTS_MAX: Final = 20
"""The newest; who keeps more has no need of the others."""
_SUFFIX: Final = "manifest.json"
_BODY_MAX: Final = 256 * 1024
_SEPARATOR: Final = "\x1e"
"""Before each document, as in JSON text sequences (RFC 7464)."""
_SIZE: Final = "\x1d"
"""Before the size and the name of each file that the newest of them promises."""

# POSIX, for a container has no more than a shell. `ls -t` puts the newest first. What the newest manifest promises is
# measured on the way: the job trains on while it is verified, and loses what it does meanwhile. A name that sed cannot
# find there, or a grep without -o, costs the question below.
_READ: Final = f"""\
cd -- "$1" || exit 1
ls -t | grep -e '{_SUFFIX}$' | head -n {_MANIFESTS_MAX} | while IFS= read -r name; do
  printf '\\036%s\\n' "$name"; cat -- "$name"
done
newest=$(ls -t | grep -e '{_SUFFIX}$' | head -n 1)
[ -n "$newest" ] || exit 0
grep -o '"name" *: *"[^"]*"' "./$newest" 2>/dev/null | sed 's/.*"\\([^"]*\\)"$/\\1/' | while IFS= read -r name; do
  if [ -f "$name" ]; then printf '\\035%s %s\\n' "$(wc -c < "$name")" "$name"; fi
done
"""
_MEASURE: Final = """\
cd -- "$1" || exit 1
shift
for name; do
  if [ -f "$name" ]; then wc -c < "$name"; else echo missing; fi
done
"""


def s3_client() -> Any:
    """A client for manifests in S3, with the worker's own credentials."""
    config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 3})
    return boto3.client("s3", config=config)


class Talk:
    """The ways to talk with pods of one cluster."""

    def __init__(self, cluster: Cluster, s3: Callable[[], Any] = s3_client) -> None:
        self._cluster = cluster
        self._s3 = s3

    def known(self, pod: Json, declared: Declaration) -> Known:
        """The checkpoints there are: of its manifests where it declares them, else as it tells."""
        if not declared.manifests:
            return self.told(pod, declared)
        told = self.told(pod, declared) if declared.command or declared.port else Known()
        return replace(self._read(pod, declared), standing=told.standing)

    def told(self, pod: Json, declared: Declaration) -> Known:
        """What the job says that it has."""
        if declared.mode is CheckpointMode.HTTP:
            return self._http(pod, declared, "GET", None, READ_TIMEOUT_S)
        return self._exec(pod, declared, [*declared.command, "list"], READ_TIMEOUT_S)

    def save(self, pod: Json, declared: Declaration, nonce: str, timeout_s: float) -> Known:
        """Ask for a checkpoint, and take the answer as it is."""
        if declared.mode is CheckpointMode.HTTP:
            return self._http(pod, declared, "POST", {"nonce": nonce}, timeout_s)
        return self._exec(pod, declared, [*declared.command, "save", nonce], timeout_s)

    def proven(self, pod: Json, declared: Declaration, claimed: Checkpoint) -> tuple[Checkpoint, Proof, str]:
        """The checkpoint as its manifest has it, what stands behind it, and what is wrong with it."""
        if not declared.manifests:
            return claimed, Proof.WORD, ""
        known = self._read(pod, declared, claimed)
        if known.checkpoints:
            return known.checkpoints[0], known.proof, ""
        return (
            claimed,
            known.proof,
            known.problem
            or (f"it says that it saved step {claimed.step}, and {declared.manifests} has no manifest of it"),
        )

    def keep(self, pod: Json | None, declared: Declaration, checkpoint: Checkpoint) -> str:
        """Keep a checkpoint from being deleted. Returns where, or why it could not be, in words."""
        return keep(self._cluster, self._s3, pod, declared, checkpoint)

    def _read(self, pod: Json, declared: Declaration, only: Checkpoint | None = None) -> Known:
        in_s3 = declared.manifests.startswith("s3://")
        return self._in_s3(declared.manifests, only) if in_s3 else self._in_pod(pod, declared, only)

    def _exec(self, pod: Json, declared: Declaration, command: list[str], timeout_s: float) -> Known:
        metadata = pod["metadata"]
        answer = run_in_pod(
            self._cluster, metadata["namespace"], metadata["name"], command, timeout_s, container=declared.container
        )
        return read_lines(answer.output) if answer.ok else Known(problem=answer.problem)

    def _http(self, pod: Json, declared: Declaration, method: str, body: Json | None, timeout_s: float) -> Known:
        metadata = pod["metadata"]
        where = urllib.parse.quote(f"{metadata['name']}:{declared.port}", safe=":")
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{where}/proxy{declared.path}"
        try:
            text = self._cluster.proxied(method, path, body, timeout_s)[:_BODY_MAX]
        except ApiException as error:
            said = str(error.body or error.reason)[-300:].strip()
            return Known(
                problem=f"{method} {declared.path} on port {declared.port} was answered {error.status}: {said}"
            )
        except HTTPError as error:
            return Known(problem=f"no answer within {timeout_s:.0f} s ({type(error).__name__})")
        return read_lines(text)

    def _in_pod(self, pod: Json, declared: Declaration, only: Checkpoint | None) -> Known:
        """What a folder has; ``only`` one checkpoint of it where no other matters."""
        metadata = pod["metadata"]

        def run(script: str, *arguments: str) -> tuple[str, str]:
            command = ["sh", "-c", script, "sh", declared.manifests, *arguments]
            answer = run_in_pod(
                self._cluster,
                metadata["namespace"],
                metadata["name"],
                command,
                READ_TIMEOUT_S,
                container=declared.container,
            )
            return answer.output, "" if answer.ok else f"{declared.manifests} could not be read: {answer.problem}"

        output, problem = run(_READ)
        if problem:
            return Known(problem=problem, proof=Proof.FILE)
        output, *measured = output.split(_SIZE)
        documents = [document.partition("\n") for document in output.split(_SEPARATOR)[1:]]
        known = replace(read_manifests((name, text) for name, _, text in documents), proof=Proof.FILE)
        known = _alone(known, only)
        said = (line.strip().partition(" ") for line in measured)
        sizes: dict[str, int | None] = {name: int(size) for size, _, name in said if size.isdigit()}
        if names := sorted({entry.name for item in known.checkpoints for entry in item.files} - sizes.keys()):
            output, problem = run(_MEASURE, *names)
            if problem:
                return Known(problem=problem, proof=Proof.FILE)
            more = zip(names, output.splitlines(), strict=False)
            sizes |= {name: int(size) if size.strip().isdigit() else None for name, size in more}
        return _whole_ones(known, sizes)

    def _in_s3(self, uri: str, only: Checkpoint | None) -> Known:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        try:
            s3 = self._s3()
            objects: list[Json] = []
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder):
                objects.extend(page.get("Contents", []))
            manifests = sorted(
                (item for item in objects if item["Key"].endswith(_SUFFIX)),
                key=lambda item: item["LastModified"],
                reverse=True,
            )
            texts = [
                (
                    item["Key"].removeprefix(folder),
                    s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read(_BODY_MAX).decode(errors="replace"),
                )
                for item in manifests[:_MANIFESTS_MAX]
            ]
        except (BotoCoreError, ClientError) as error:
            return Known(problem=f"{uri} could not be read: {error}", proof=Proof.S3)
        known = _alone(replace(read_manifests(texts), proof=Proof.S3), only)
        sizes: dict[str, int | None] = {item["Key"].removeprefix(folder): item["Size"] for item in objects}
        return _whole_ones(known, sizes)


def _alone(known: Known, only: Checkpoint | None) -> Known:
    """One checkpoint of them, by what it was asked for and its step; all where none is looked for."""
    if only is None:
        return known
    same = (item for item in known.checkpoints if (item.nonce, item.step) == (only.nonce, only.step))
    return replace(known, checkpoints=tuple(same))


def _whole_ones(known: Known, sizes: dict[str, int | None]) -> Known:
    """Those checkpoints whose files are all there; a half one is a problem, and none of them."""
    whole, problem = [], known.problem
    for item in known.checkpoints:
        missing = incomplete(item, [sizes.get(entry.name) for entry in item.files])
        if missing:
            problem = problem or missing
        else:
            whole.append(item)
    return replace(known, checkpoints=tuple(whole), problem=problem)
