"""A capture as a stream of lines, whatever it was put into: compressed, JSON of several lines, or no text at all.

What is no capture is refused here with what to give instead: a detector that finds nothing in a picture says nothing
about the node. Damage ends a stream early, and is told; it loses nothing of what stands before it.
"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from cli.errors import CommandError
from contract.names import ExitCode

_CHUNK: Final = 1 << 16
_DOCUMENT_MAX: Final = 1 << 28
"""JSON that is not one object to a line is read whole: a kernel's log buffer has some MiB."""
_LOOK: Final = 4096
_TEXT_SHARE: Final = 0.7
"""Of a capture's first bytes: a log that a crash left holes in (runs of NUL) still is one, an image is not."""
_PACKED: Final[dict[bytes, Callable[[], Any]]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
}
_REFUSED: Final = {
    b"\x28\xb5\x2f\xfd": (
        "is compressed with zstd",
        "Give what `zstdcat` prints of it: `zstdcat FILE | nodemend replay -`.",
    ),
    b"PK\x03\x04": ("is a zip archive", "Unpack it, and give the log that is in it."),
    b"LPKSHHRH": ("is journald's own file", "Give what `journalctl --file FILE -k -o json` prints."),
    b"\xff\xfe": ("is UTF-16", "Make it UTF-8: `iconv -f UTF-16 -t UTF-8 FILE | nodemend replay -`."),
    b"\xfe\xff": ("is UTF-16", "Make it UTF-8: `iconv -f UTF-16 -t UTF-8 FILE | nodemend replay -`."),
}
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_BETWEEN: Final = " \t\r\n\x1e,"
"""Blanks, and what separates records in `journalctl -o json-seq`."""


class Lines:
    """Reads a stream line by line, as ``io`` does, unpacked and made one record to a line."""

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        """Look at its beginning.

        Raises:
            CommandError: it is no capture.
        """
        self.cut = ""
        """Why it ended before its end; empty where it did not."""
        self._stream = stream
        head = stream.read(_LOOK)
        _refuse(name, head)
        pieces = self._pieces(head)
        packed = next((make for magic, make in _PACKED.items() if head.startswith(magic)), None)
        if packed:
            pieces = self._unpacked(pieces, packed)
        first = next(pieces, b"").removeprefix(_UTF8_MARK)
        if packed:
            _refuse(name, first[:_LOOK])
        self._buffer, self._rest = first, pieces
        if _is_of_several_lines(first):
            self._buffer, self._rest = self._one_to_a_line(), iter(())

    def readline(self, limit: int) -> bytes:
        """The next line with its end, or so much of it; nothing at the end."""
        while b"\n" not in self._buffer[:limit] and len(self._buffer) < limit and (piece := next(self._rest, b"")):
            self._buffer += piece
        end = self._buffer.find(b"\n", 0, limit)
        size = end + 1 if end >= 0 else limit
        line, self._buffer = self._buffer[:size], self._buffer[size:]
        return line

    def _pieces(self, head: bytes) -> Iterator[bytes]:
        while head:
            yield head
            head = self._stream.read(_CHUNK)

    def _unpacked(self, pieces: Iterator[bytes], make: Callable[[], Any]) -> Iterator[bytes]:
        unpacker = make()
        try:
            for piece in pieces:
                data = piece
                while data:
                    if unpacker.eof:  # A file of several parts, as `cat a.gz b.gz` makes.
                        unpacker = make()
                    if out := unpacker.decompress(data):
                        yield out
                    data = unpacker.unused_data if unpacker.eof else b""
        except (OSError, zlib.error, lzma.LZMAError, EOFError) as error:
            self.cut = f"It is damaged ({error}): what stands before that was read."
            return
        if not unpacker.eof:
            self.cut = "The compressed file is cut short: what is there was read."

    def _one_to_a_line(self) -> bytes:
        whole = self._buffer
        for piece in self._rest:
            whole += piece
            if len(whole) > _DOCUMENT_MAX:
                self.cut = f"Its JSON is larger than {_DOCUMENT_MAX >> 20} MiB: the rest was left out."
                break
        text = whole.decode("utf-8", "replace")
        return "".join(f"{line}\n" for line in self._records(text)).encode("utf-8", "replace")

    def _records(self, text: str) -> Iterator[str]:
        decoder, at = json.JSONDecoder(), 0
        while (at := _after(text, at, _BETWEEN)) < len(text):
            try:
                document, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                # A list that was cut short still has whole records in it, and so has what dmesg wrote.
                if (inside := text.find("{", at + 1)) < 0:
                    self.cut = self.cut or "Its JSON is cut short: what is whole was read."
                    return
                at = inside
                continue
            yield from _lines_of(document)


def _lines_of(document: Any) -> Iterator[str]:
    """Records of `dmesg --json` as dmesg's text, those of a journal as its JSON lines."""
    if isinstance(document, list):
        for entry in document:
            yield from _lines_of(entry)
    elif isinstance(document, dict) and isinstance(document.get("dmesg"), list):
        yield from _lines_of(document["dmesg"])
    elif isinstance(document, dict) and "msg" in document and "MESSAGE" not in document:
        message = str(document["msg"]).replace("\n", "\\x0a")
        facility, level = document.get("fac"), document.get("pri")
        prefix = f"<{level}>" if isinstance(level, int) else f"{facility}  :{level}: " if facility and level else ""
        time = document.get("time")
        stamp = f"{time:.6f}" if isinstance(time, int | float) else str(time).strip()
        yield f"{prefix}[{stamp}] {message}" if time not in (None, "") else f"{prefix}{message}"
    else:
        yield json.dumps(document)


def _is_of_several_lines(head: bytes) -> bool:
    """JSON, and its first line is no whole object: `dmesg --json`, `journalctl -o json-pretty`, a list, a sequence."""
    start = head.lstrip(b" \t\r\n\x1e")
    if not start.startswith((b"{", b"[{", b"[\n", b"[ ", b"[\r")):
        return False
    line, ended, _ = start.partition(b"\n")
    if start.startswith(b"[ ") and not line.rstrip(b" \t\r").endswith((b"[", b"{")):
        return False  # `[    0.000000] Linux version` is dmesg's text.
    try:
        first = json.loads(line)
        return not isinstance(first, dict) or "dmesg" in first or head.startswith(b"\x1e")
    except (ValueError, RecursionError):
        # One long object to a line, and the head has not all of it.
        return bool(ended) or len(start) < _LOOK // 2


def _refuse(name: str, head: bytes) -> None:
    found = next((words for magic, words in _REFUSED.items() if head.startswith(magic)), None)
    packed = any(head.startswith(magic) for magic in _PACKED)
    said = head.replace(b"\0", b"")
    text = sum(byte >= 0x20 or byte in b"\t\r\n\x1b\x1e" for byte in said)
    readable = min(text, len(said.decode("utf-8", "ignore").encode()))
    if found is None and head and not packed and (not said or readable < _TEXT_SHARE * len(said)):
        found = ("is no text", "Give a capture of dmesg, /dev/kmsg or journalctl (-k, -o json), compressed or not.")
    if found:
        raise CommandError(f"{name} {found[0]}.", found[1].replace("FILE", name), ExitCode.DATA)


def _after(text: str, at: int, skipped: str) -> int:
    while at < len(text) and text[at] in skipped:
        at += 1
    return at
