"""Keys that close what Temporal keeps: AES-256-GCM, the key's name beside what it closed, so that keys can change.

All who speak with Temporal use the same folder of keys, such as a mounted Secret: each file is a key, its name the
key's name, its content 32 bytes in base64. Everything in the folder opens; one key closes.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER_SETTING: Final = "NODEMEND_PAYLOAD_KEYS"
NAME_SETTING: Final = "NODEMEND_PAYLOAD_KEY"
ENCODING: Final = b"binary/encrypted"
"""As Temporal's own samples call it, so that other tools know what they see."""
KEY_ID: Final = "encryption-key-id"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
"""NIST SP 800-38D, 8.2: 96 bits, drawn at random for each payload; a key is good for 2^32 of them."""


class KeyringError(Exception):
    """Keys that cannot be used. ``remedy`` says what to do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy


class Keyring:
    """Closes with one key and opens with all of them."""

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        # Only who has keys waits for this to be loaded.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._keys = {name: AESGCM(key) for name, key in keys.items()}
        self.current = current

    @property
    def metadata(self) -> dict[str, bytes]:
        """Of a payload that is closed now: how, and with which key."""
        return {"encoding": ENCODING, KEY_ID: self.current.encode()}

    def seal(self, plain: bytes) -> bytes:
        """Close it with the current key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._keys[self.current].encrypt(nonce, plain, self.current.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        """Open what the key of this name closed.

        Raises:
            KeyringError: there is no such key, or it was closed with another, or changed.
        """
        from cryptography.exceptions import InvalidTag

        if name not in self._keys:
            raise KeyringError(
                f"A payload was closed with the key {name!r}, which is not in {FOLDER_SETTING}.",
                "Put it back: a key goes only when the retention of the namespace is over.",
            )
        try:
            return self._keys[name].decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError) as error:
            raise KeyringError(
                f"A payload does not open with the key {name!r}: it was closed with another one of that name, or "
                "changed.",
                "Compare the keys of detectors, workers and command line.",
            ) from error


def load_keyring(environ: Mapping[str, str]) -> Keyring | None:
    """The keys that the settings name; None where nothing is to be closed.

    Raises:
        KeyringError: they cannot be used.
    """
    folder, current = environ.get(FOLDER_SETTING, ""), environ.get(NAME_SETTING, "")
    if not folder:
        if current:
            raise KeyringError(f"{NAME_SETTING} is set and {FOLDER_SETTING} is not.", "Set both, or neither.")
        return None
    try:
        # A mounted Secret has folders of its own beside the keys, whose names start with dots.
        files = [path for path in sorted(Path(folder).iterdir()) if not path.name.startswith(".")]
        keys = {path.name: _read(path) for path in files}
    except OSError as error:
        raise KeyringError(f"{FOLDER_SETTING} cannot be read: {error}.", "Mount the Secret with the keys.") from error
    if not current and len(keys) == 1:
        current = next(iter(keys))
    if current not in keys:
        raise KeyringError(
            f"{FOLDER_SETTING} ({folder}) has the keys {', '.join(keys) or 'none at all'}, and none is to close.",
            f"Name one of them in {NAME_SETTING}.",
        )
    return Keyring(keys, current)


def _read(path: Path) -> bytes:
    try:
        key = base64.b64decode(path.read_bytes().strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise KeyringError(
            f"{path} is no key: it must be {_KEY_BYTES} bytes in base64.",
            f"Make one: head -c {_KEY_BYTES} /dev/urandom | base64 > {path}",
        )
    return key
