"""The record in S3: written once under a key that is the incident's run, and never written over.

Write-once is asked of S3 itself (``If-None-Match``, conditional writes), so two workers cannot race. A bucket with
Object Lock keeps what is there from its owner too; a checksum goes along, which such a bucket demands of each write
(S3 User Guide, "Object Lock considerations").
"""

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from activities.aws_calls import CALL, AbsentError, calling
from activities.errors import failure
from contract.names import ErrorType

if TYPE_CHECKING:
    import boto3

_THERE: Final = ("PreconditionFailed", "412")
_GONE: Final = ("NoSuchKey", "404")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class Archive:
    """A bucket, or a part of one. Safe to use from several threads."""

    def __init__(self, session: "boto3.Session", address: str) -> None:
        """``address``: ``s3://bucket/prefix``."""
        parts = urlsplit(address)
        self._bucket, self._prefix = parts.netloc, parts.path.strip("/")
        # Any: the stubs that we have are of EC2 and Auto Scaling.
        self._s3: Any = session.client("s3", config=CALL)

    def key(self, *parts: str) -> str:
        """Where something is kept; no part can lead out of the prefix."""
        return "/".join(filter(None, [self._prefix, *(_UNSAFE.sub("_", part) for part in parts)]))

    def keep(self, key: str, text: str) -> str:
        """Write an object that is not there yet, and return its URI. The same text again is the same object.

        Raises:
            ApplicationError: ``PolicyForbids`` when there is another text under the key; what S3 refuses or cannot
                answer, as for every call of AWS.
        """
        uri = f"s3://{self._bucket}/{key}"
        try:
            with calling("s3:PutObject", absent=_THERE):
                self._s3.put_object(
                    Bucket=self._bucket,
                    Key=key,
                    Body=text.encode(),
                    ContentType="application/json",
                    ChecksumAlgorithm="SHA256",
                    IfNoneMatch="*",
                )
        except AbsentError:
            if self.read(key) != text:
                raise failure(
                    ErrorType.POLICY_FORBIDS,
                    f"{uri} holds another record already, and a record is never written over. See who wrote it; this "
                    "one is in the workflow's result.",
                ) from None
        return uri

    def read(self, key: str) -> str | None:
        """An object's text; None where there is none."""
        try:
            with calling("s3:GetObject", absent=_GONE):
                body: bytes = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except AbsentError:
            return None
        return body.decode(errors="replace")

    def keys(self, name: str) -> list[str]:
        """The keys of all objects of a name, whatever incident they belong to."""
        with calling("s3:ListBucket"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            found = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return sorted(key for key in found if key.rpartition("/")[2] == name)
