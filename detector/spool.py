"""The spool: findings on the node's disk until they are delivered, in JSON lines, each synced before it counts.

Watch writes ``spool.jsonl`` and ``state.json``; the courier writes ``delivered.json`` and nothing else, so neither
ever waits for the other. A torn last line is what a crash leaves, and is no finding yet. Standard library alone.
"""

import json
import os
from typing import Any, Final

Entry = dict[str, Any]

SPOOL: Final = "spool.jsonl"
STATE: Final = "state.json"
DELIVERED: Final = "delivered.json"

_MOST_ENTRIES: Final = 2000
"""Bound of the spool, at most 8 KB an entry."""
_WORST_FIRST: Final = ("hardware", "repairable", "ambiguous", "elsewhere", "application", "notice")


def read_json(path: str) -> "dict[str, Any]":
    """A JSON object from a file; empty when it is missing or broken."""
    try:
        with open(path, encoding="utf-8") as handle:  # noqa: PTH123 - pathlib costs memory that watch does not have
            found = json.load(handle)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: str, value: "dict[str, Any]") -> None:
    """Replace a file as a whole, on the disk when this returns.

    Raises:
        OSError: it could not be written; the file before it is untouched.
    """
    temporary = f"{path}.tmp"
    _write_whole(temporary, json.dumps(value, ensure_ascii=False))
    os.replace(temporary, path)  # noqa: PTH105
    _sync_folder(os.path.dirname(path))  # noqa: PTH120


def read_entries(folder: str) -> "tuple[list[Entry], int]":
    """The entries of a spool in order, and how many lines were no entries (torn or corrupt)."""
    entries, broken = [], 0
    try:
        with open(os.path.join(folder, SPOOL), "rb") as handle:  # noqa: PTH118, PTH123
            for line in handle:
                try:
                    entry = json.loads(line)
                    int(entry["id"])
                    entries.append(entry)
                except (ValueError, TypeError, KeyError):
                    broken += 1
    except FileNotFoundError:
        pass
    return entries, broken


class Spool:
    """Watch's side of the spool."""

    def __init__(self, folder: str) -> None:
        """Open it, dropping what a crash tore.

        Raises:
            OSError: the folder cannot be used.
        """
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        self.folder = folder
        self.entries, self.broken = read_entries(folder)
        self.dropped: dict[str, int] = {}
        """By verdict: what did not fit."""
        self._next = max((entry["id"] for entry in self.entries), default=0) + 1
        delivered = read_json(os.path.join(folder, DELIVERED))  # noqa: PTH118
        self._next = max(self._next, int(delivered.get("temporal", 0)) + 1, int(delivered.get("node", 0)) + 1)
        if self.broken or not _ends_whole(os.path.join(folder, SPOOL)):  # noqa: PTH118
            self._rewrite()

    @property
    def empty(self) -> bool:
        """Whether everything is delivered."""
        return not self.entries

    def append(self, kind: str, content: "dict[str, Any]") -> None:
        """Add an entry; it is on the disk when this returns.

        Raises:
            OSError: it is not on the disk, nor in the spool: try again later.
        """
        entry: Entry = {"id": self._next, "kind": kind, **content}
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode()
        path = os.path.join(self.folder, SPOOL)  # noqa: PTH118
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                written = os.write(descriptor, line)
                if written != len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(descriptor)
            except OSError:
                # A half line would swallow the next one.
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        self.entries.append(entry)
        self._next += 1
        if len(self.entries) > _MOST_ENTRIES:
            self._make_room()

    def collect(self) -> None:
        """Forget what the courier has delivered to both sides.

        Raises:
            OSError: the disk; the spool is as before.
        """
        delivered = read_json(os.path.join(self.folder, DELIVERED))  # noqa: PTH118
        done = min(int(delivered.get("temporal", 0)), int(delivered.get("node", 0)))
        left = [entry for entry in self.entries if entry["id"] > done]
        if len(left) != len(self.entries):
            self.entries = left
            self._rewrite()

    def _make_room(self) -> None:
        """Drop the least of the entries: a hardware finding never goes before a notice (K23)."""
        worst = {verdict: rank for rank, verdict in enumerate(_WORST_FIRST)}
        least = max(self.entries, key=lambda entry: (worst.get(entry.get("verdict", "notice"), 9), entry["id"]))
        self.entries.remove(least)
        verdict = str(least.get("verdict", least["kind"]))
        self.dropped[verdict] = self.dropped.get(verdict, 0) + 1
        self._rewrite()

    def _rewrite(self) -> None:
        path = os.path.join(self.folder, SPOOL)  # noqa: PTH118
        _write_whole(f"{path}.tmp", "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in self.entries))
        os.replace(f"{path}.tmp", path)  # noqa: PTH105
        _sync_folder(self.folder)


def _ends_whole(path: str) -> bool:
    """Whether the next line would be a line of its own."""
    try:
        with open(path, "rb") as handle:  # noqa: PTH123
            handle.seek(-1, os.SEEK_END)
            return handle.read(1) == b"\n"
    except OSError:
        # Missing or empty.
        return True


def _write_whole(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = memoryview(text.encode())
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
