"""Checkpoints as jobs tell of them, and what makes one believable. Pure.

One JSON object a checkpoint: ``nonce``, ``step``, ``uri``, ``time``; in a manifest also ``files``, each with name and
size. A manifest is written last, so one that is there speaks for files that are there, and their sizes say whether.
A line with ``at`` in place of ``step`` tells where the job is now, and when it took that step.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

_SKEW: Final = timedelta(minutes=1)
"""How far the clocks of a job and of a worker may be apart."""
_SHOWN: Final = 120


class Proof(StrEnum):
    """What stands behind a checkpoint."""

    FILE = "file"
    """Its manifest was read in the pod, and its files are as long as that says."""
    S3 = "s3"
    """Its manifest was read from S3, and its objects are as long as that says."""
    WORD = "word"
    """The pod says so."""


class FileEntry(BaseModel):
    """One file of a checkpoint, relative to the folder of its manifest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1, max_length=512, pattern=r"^[^/\s][^\s]*$")
    size: int = Field(ge=0)


class Checkpoint(BaseModel):
    """One checkpoint."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    nonce: str = ""
    step: int = Field(ge=0)
    uri: str = Field(min_length=1, max_length=1024)
    time: AwareDatetime
    files: tuple[FileEntry, ...] = Field(default=(), max_length=100_000)
    source: str = ""
    """File of its manifest, relative to the folder of manifests; empty where a job tells of it."""


class Standing(BaseModel):
    """Where a job is now."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: int = Field(ge=0)
    time: AwareDatetime


@dataclass(frozen=True)
class Known:
    """What could be read of a job's checkpoints."""

    checkpoints: tuple[Checkpoint, ...] = ()
    standing: Standing | None = None
    problem: str = ""
    """What is wrong with what was read; what was fine stands beside it."""
    proof: Proof = Proof.WORD

    @property
    def newest(self) -> Checkpoint | None:
        """The last one by time."""
        return max(self.checkpoints, key=lambda item: (item.time, item.step), default=None)

    def before(self, moment: datetime | None) -> tuple[Checkpoint, ...]:
        """Those from before a moment; all of them where there is none."""
        return tuple(item for item in self.checkpoints if moment is None or item.time < moment)


def read_lines(output: str) -> Known:
    """What a program printed. Lines that start with no brace are its own chatter."""
    return read_documents(line for line in output.splitlines() if line.strip().startswith("{"))


def read_documents(texts: Iterable[str]) -> Known:
    """Checkpoints, each a JSON text."""
    return read_manifests(("", text) for text in texts)


def read_manifests(documents: Iterable[tuple[str, str]]) -> Known:
    """Checkpoints, each a JSON text, with the name of its file."""
    found: list[Checkpoint] = []
    standing: Standing | None = None
    problem = ""
    for name, text in documents:
        try:
            document = json.loads(text)
            if isinstance(document, dict) and "at" in document and "step" not in document:
                standing = Standing.model_validate(document)
            else:
                found.append(Checkpoint.model_validate(document).model_copy(update={"source": name}))
        except (ValidationError, ValueError, RecursionError) as error:
            problem = f"it gave {text.strip()[:_SHOWN]!r}, which is no checkpoint ({type(error).__name__})"
    return Known(tuple(found), standing, problem)


def incomplete(checkpoint: Checkpoint, sizes: Sequence[int | None]) -> str:
    """What is missing of a checkpoint whose files have these sizes; empty when nothing is."""
    for entry, size in zip(checkpoint.files, sizes, strict=True):
        if size != entry.size:
            there = "is not there" if size is None else f"has {size} bytes"
            return (
                f"its manifest of step {checkpoint.step} promises {entry.name} with {entry.size} bytes, which {there}"
            )
    return ""


def refused(answer: Checkpoint, nonce: str, newest: int, asked_at: datetime) -> str:
    """Why an answer to a request does not count; empty when it does."""
    if answer.nonce != nonce:
        return f"its answer carries the nonce {answer.nonce!r} and not the one it was given"
    if answer.step < newest:
        return f"its answer is step {answer.step}, older than step {newest} which it had before"
    if answer.time < asked_at - _SKEW:
        return f"its answer is of {answer.time:%Y-%m-%d %H:%M:%S}, from before it was asked ({asked_at:%H:%M:%S})"
    return ""
