"""The base of every message: frozen, strict about unknown fields, versioned by the schema it is published under."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

SCHEMA_VERSION = 1
"""Version of the published schemas. A field may be added with a default; anything else raises this number."""

MESSAGE_MAX = 1024
"""Longest kernel text carried in a message, in characters (rule C14: bounded, sanitised)."""


class Message(BaseModel):
    """A frozen message. Unknown fields are refused where people write (policy, overrides), ignored between versions."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_timedelta="iso8601")


class Document(BaseModel):
    """A frozen document that a person writes: an unknown field is a typing error, so it is refused by name."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_timedelta="iso8601")


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MESSAGE_MAX)]
"""Text that a person must have written: not blank, bounded."""
