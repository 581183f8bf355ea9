"""How workers and the command line write to Temporal and read from it: as JSON, closed where keys are set."""

import dataclasses
from collections.abc import Mapping, Sequence

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec

from contract.payload_keys import ENCODING, KEY_ID, Keyring, load_keyring


class ClosedPayloads(PayloadCodec):
    """Closes every payload and opens those that are closed: what is from before keys were set is read as it is."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Close them."""
        return [close(payload, self._keys) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open those that are closed."""
        return [open_payload(payload, self._keys) for payload in payloads]


def close(payload: Payload, keys: Keyring) -> Payload:
    """The payload, whole with its metadata, closed with the current key."""
    return Payload(metadata=keys.metadata, data=keys.seal(payload.SerializeToString()))


def open_payload(payload: Payload, keys: Keyring) -> Payload:
    """The payload that was closed; one that was not is returned as it is."""
    if payload.metadata.get("encoding") != ENCODING:
        return payload
    return Payload.FromString(keys.open(payload.metadata[KEY_ID].decode(), payload.data))


def data_converter(environ: Mapping[str, str]) -> DataConverter:
    """The converter that the settings ask for.

    Raises:
        KeyringError: keys are set and cannot be used.
    """
    keys = load_keyring(environ)
    if keys is None:
        return pydantic_data_converter
    return dataclasses.replace(
        pydantic_data_converter,
        payload_codec=ClosedPayloads(keys),
        # The messages of failures name pods and machines too.
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
