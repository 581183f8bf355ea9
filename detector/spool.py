"""The spool: findings on the node's disk until they are delivered, in JSON lines, each synced before it counts.

Watch writes ``spool.jsonl`` and ``state.json``; the courier writes ``delivered.json`` and nothing else of these, so
neither ever waits for the other. A torn last line is what a crash leaves, and is no finding yet. Standard library
alone.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any, Final

Entry = dict[str, Any]

SPOOL: Final = "spool.jsonl"
STATE: Final = "state.json"
DELIVERED: Final = "delivered.json"
SIDES: Final = ("temporal", "node")

_MOST_ENTRIES: Final = 2000
"""Bound of the spool, at most 8 KB an entry."""
_IDENTITY: Final = ("kind", "boot_id", "seq", "signature", "count")
_RANK: Final = {
    verdict: rank
    for rank, verdict in enumerate(("hardware", "repairable", "ambiguous", "elsewhere", "application", "notice"))
}


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
    write_text(path, json.dumps(value, ensure_ascii=False))


def write_text(path: str, text: str) -> None:
    """Replace a file as a whole, on the disk when this returns.

    Raises:
        OSError: it could not be written; the file before it is untouched.
    """
    temporary = f"{path}.tmp"
    _write_whole(temporary, text)
    os.replace(temporary, path)  # noqa: PTH105
    _sync_folder(os.path.dirname(path))  # noqa: PTH120


def read_entries(folder: str) -> "tuple[list[Entry], int]":
    """The entries of a spool in order, and how many lines were no entries (torn or corrupt)."""
    found = list(_entries(folder))
    entries = [entry for entry in found if entry is not None]
    return entries, len(found) - len(entries)


def read_delivered(folder: str) -> "dict[str, int]":
    """The last entry that each side has; 0 for none."""
    found = read_json(os.path.join(folder, DELIVERED))  # noqa: PTH118
    return {side: value if isinstance(value := found.get(side), int) else 0 for side in SIDES}


def _entries(folder: str) -> "Iterator[Entry | None]":
    """Line by line; None for what is no entry."""
    try:
        with open(os.path.join(folder, SPOOL), "rb") as handle:  # noqa: PTH118, PTH123
            for line in handle:
                try:
                    entry = json.loads(line)
                    whole = isinstance(entry, dict) and isinstance(entry["id"], int) and isinstance(entry["kind"], str)
                except (ValueError, KeyError, RecursionError):
                    whole = False
                yield entry if whole else None
    except FileNotFoundError:
        return


class Spool:
    """Watch's side of the spool."""

    def __init__(self, folder: str) -> None:
        """Open it, dropping what a crash tore.

        Raises:
            OSError: the folder cannot be used.
        """
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        self.folder = folder
        entries, self.broken = read_entries(folder)
        self.entries = [_head(entry) for entry in entries]
        """In order, and only what is needed to order them: the rest stays on the disk."""
        self.dropped: dict[str, int] = {}
        """By verdict: what did not fit."""
        self._torn = False
        """Whether the file may end in half a line."""
        self._next = max([*(entry["id"] for entry in entries), *read_delivered(folder).values()], default=0) + 1
        if self.broken or not _ends_whole(os.path.join(folder, SPOOL)):  # noqa: PTH118
            try:
                self._rewrite()
            except OSError:
                # A disk that takes nothing must not stop the reader; the next line begins on a line of its own.
                self._torn = True

    @property
    def last_id(self) -> int:
        """Of the newest entry there ever was; 0 for none."""
        return self._next - 1

    @property
    def empty(self) -> bool:
        """Whether everything is delivered."""
        return not self.entries

    def append(self, kind: str, content: "dict[str, Any]") -> None:
        """Add an entry; it is on the disk when this returns.

        Raises:
            OSError: it is not on the disk, nor in the spool: try again later.
        """
        self.append_all([(kind, content)])

    def append_all(self, new: "list[tuple[str, dict[str, Any]]]") -> None:
        """Add entries; all of them are on the disk when this returns.

        What is in the spool already is not added again: after a crash, records beyond the saved cursor are read twice.

        Raises:
            OSError: none of them is on the disk, nor in the spool: try again later.
        """
        known = {_identity(entry) for entry in self.entries}
        added: list[Entry] = []
        for kind, content in new:
            entry: Entry = {"id": self._next + len(added), "kind": kind, **content}
            if _identity(entry) not in known:
                known.add(_identity(entry))
                added.append(entry)
        if not added:
            return
        lines = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in added).encode("utf-8", "replace")
        lines = b"\n" + lines if self._torn else lines
        path = os.path.join(self.folder, SPOOL)  # noqa: PTH118
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            try:
                written = os.write(descriptor, lines)
                if written != len(lines):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
                if not size:
                    _sync_folder(self.folder)
            except OSError:
                # A half line would swallow the next one.
                try:
                    os.ftruncate(descriptor, size)
                except OSError:
                    self._torn = True
                raise
        finally:
            os.close(descriptor)
        self._torn = False
        self.entries += [_head(entry) for entry in added]
        self._next += len(added)
        if len(self.entries) > _MOST_ENTRIES:
            self._make_room()

    def collect(self) -> None:
        """Forget what the courier has delivered to both sides.

        Raises:
            OSError: the disk; the spool is as before.
        """
        done = min(read_delivered(self.folder).values())
        left = [entry for entry in self.entries if entry["id"] > done]
        if len(left) == len(self.entries):
            return
        before, self.entries = self.entries, left
        try:
            self._rewrite()
        except OSError:
            self.entries = before
            raise

    def _make_room(self) -> None:
        """Drop the least of the entries: a hardware finding never goes before a notice (K23)."""
        while len(self.entries) > _MOST_ENTRIES:
            gone = self.entries.pop(least(self.entries))
            verdict = str(gone.get("verdict") or gone["kind"])
            self.dropped[verdict] = self.dropped.get(verdict, 0) + 1
        self._rewrite()

    def _rewrite(self) -> None:
        """Leave on the disk what is in memory."""
        kept = {entry["id"] for entry in self.entries}
        path = os.path.join(self.folder, SPOOL)  # noqa: PTH118
        descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as target:  # noqa: PTH123
            for entry in _entries(self.folder):
                if entry is not None and entry["id"] in kept:
                    kept.discard(entry["id"])
                    target.write(json.dumps(entry, ensure_ascii=False) + "\n")
            target.flush()
            os.fsync(descriptor)
        os.replace(f"{path}.tmp", path)  # noqa: PTH105
        _sync_folder(self.folder)


def _head(entry: Entry) -> Entry:
    return {name: entry.get(name) for name in ("id", *_IDENTITY, "verdict", "drill")}


def least(entries: "list[Entry]") -> int:
    """Which entry to do without: of the least verdict, rehearsals first, the newest, for the oldest came first."""

    def rank(index: int) -> "tuple[int, bool, int]":
        entry = entries[index]
        verdict = str(entry.get("verdict") or "notice")
        return _RANK.get(verdict, len(_RANK)), bool(entry.get("drill")), index

    return max(range(len(entries)), key=rank)


def lock(folder: str, name: str) -> "int | None":
    """Take a lock that ends with the process; None when another process has it.

    Raises:
        OSError: the folder cannot be used.
    """
    descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)  # noqa: PTH118
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _identity(entry: Entry) -> "tuple[Any, ...]":
    """What makes two entries the same one."""
    return tuple(entry.get(name) for name in _IDENTITY)


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
        data = memoryview(text.encode("utf-8", "replace"))
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
