"""Closed payloads: what was closed opens with its key alone, keys can change, bad settings are refused."""

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter

from contract.payload_codec import ClosedPayloads, close, data_converter, open_payload
from contract.payload_keys import FOLDER_SETTING, NAME_SETTING, Keyring, KeyringError, load_keyring

KEYS = {"2026-11": b"\x01" * 32, "2026-12": b"\x02" * 32}
NEW, OLD = Keyring(KEYS, "2026-12"), Keyring(KEYS, "2026-11")
payloads = st.builds(
    Payload, data=st.binary(max_size=200), metadata=st.dictionaries(st.text(max_size=8), st.binary(max_size=8))
).filter(lambda payload: payload.metadata.get("encoding") != b"binary/encrypted")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As a Secret is mounted: the keys, and folders of its own beside them."""
    for name, key in KEYS.items():
        (tmp_path / name).write_bytes(base64.b64encode(key) + b"\n")
    (tmp_path / "..data").mkdir()
    return tmp_path


@given(payloads)
def test_what_was_closed_opens_whole_and_what_was_not_is_read_as_it_is(payload: Payload) -> None:
    """Keys may be set while incidents run: their histories are from before."""
    assert open_payload(close(payload, NEW), NEW) == payload
    assert open_payload(payload, NEW) == payload


@given(st.binary(min_size=8, max_size=200))
def test_nothing_of_it_is_readable_and_the_same_twice_looks_different(data: bytes) -> None:
    payload = Payload(data=data, metadata={"encoding": b"json/plain"})
    first, second = close(payload, NEW), close(payload, NEW)
    assert data not in first.data
    assert first.data != second.data
    assert first.metadata == {"encoding": b"binary/encrypted", "encryption-key-id": b"2026-12"}


def test_key_that_closes_can_change_and_the_one_before_still_opens() -> None:
    payload = Payload(data=b"before", metadata={"encoding": b"json/plain"})
    assert open_payload(close(payload, OLD), NEW) == payload


@pytest.mark.parametrize(
    "spoil",
    [
        lambda closed: Payload(metadata=closed.metadata, data=closed.data[:-1] + bytes([closed.data[-1] ^ 1])),
        lambda closed: Payload(metadata=closed.metadata, data=b""),
        lambda closed: Payload(metadata={**closed.metadata, "encryption-key-id": b"2026-11"}, data=closed.data),
        lambda closed: Payload(metadata={**closed.metadata, "encryption-key-id": b"gone"}, data=closed.data),
    ],
    ids=["changed", "cut off", "another key's name", "a key that is gone"],
)
def test_what_does_not_open_says_so_and_is_never_taken_for_something_else(
    spoil: Callable[[Payload], Payload],
) -> None:
    with pytest.raises(KeyringError, match=r"2026-1|gone"):
        open_payload(spoil(close(Payload(data=b"x"), NEW)), NEW)


def test_settings_name_the_folder_and_the_key_that_closes(folder: Path) -> None:
    keys = load_keyring({FOLDER_SETTING: str(folder), NAME_SETTING: "2026-11"})
    assert keys
    assert keys.current == "2026-11"
    assert open_payload(close(Payload(data=b"x"), OLD), keys).data == b"x"


def test_only_key_closes_without_being_named(folder: Path) -> None:
    (folder / "2026-11").unlink()
    keys = load_keyring({FOLDER_SETTING: str(folder)})
    assert keys
    assert keys.current == "2026-12"


def test_without_settings_nothing_is_closed() -> None:
    assert load_keyring({}) is None
    assert data_converter({}) is pydantic_data_converter


def test_with_settings_payloads_and_the_messages_of_failures_are_closed(folder: Path) -> None:
    converter = data_converter({FOLDER_SETTING: str(folder), NAME_SETTING: "2026-12"})
    assert isinstance(converter.payload_codec, ClosedPayloads)


def _no_folder(folder: Path) -> dict[str, str]:
    return {FOLDER_SETTING: str(folder / "nowhere")}


def _no_name(folder: Path) -> dict[str, str]:
    return {FOLDER_SETTING: str(folder)}


def _wrong_name(folder: Path) -> dict[str, str]:
    return {FOLDER_SETTING: str(folder), NAME_SETTING: "2027-01"}


def _short_key(folder: Path) -> dict[str, str]:
    (folder / "2026-11").write_bytes(base64.b64encode(os.urandom(16)))
    return {FOLDER_SETTING: str(folder), NAME_SETTING: "2026-12"}


def _no_base64(folder: Path) -> dict[str, str]:
    (folder / "2026-11").write_text("a password, perhaps?")
    return {FOLDER_SETTING: str(folder), NAME_SETTING: "2026-12"}


def _name_alone(_folder: Path) -> dict[str, str]:
    return {NAME_SETTING: "2026-12"}


@pytest.mark.parametrize("settings", [_no_folder, _no_name, _wrong_name, _short_key, _no_base64, _name_alone])
def test_keys_that_cannot_be_used_are_refused_with_what_to_do_and_never_shown(
    folder: Path, settings: Callable[[Path], dict[str, str]]
) -> None:
    with pytest.raises(KeyringError) as refused:
        load_keyring(settings(folder))
    assert refused.value.remedy
    assert "password" not in str(refused.value)
