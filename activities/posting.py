"""Posting JSON to a webhook: signed where there is a secret, and tried again at once where that may help."""

import json
from typing import Any, Final

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    ReadTimeoutError,
    ResponseError,
)

from contract.signing import signed

_RETRIES: Final = urllib3.Retry(
    total=3, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None, redirect=0
)


class NotTakenError(Exception):
    """Nobody took it."""


class Poster:
    """One receiver. Safe to use from several threads."""

    def __init__(self, url: str, secret: str, patience: urllib3.Timeout) -> None:
        """``patience``: for each of the tries, of which there are four at most."""
        self._url = url
        self._secret = secret.encode()
        self._pool = urllib3.PoolManager(timeout=patience, retries=_RETRIES)

    def post(self, body: dict[str, Any]) -> None:
        """Send it.

        Raises:
            NotTakenError: it was not taken. The address is not in the text: of Slack, it is the secret.
        """
        data = json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", **signed(self._secret, data)}
        try:
            answer = self._pool.request("POST", self._url, body=data, headers=headers)
        except HTTPError as error:
            raise NotTakenError(_why(error)) from None
        if not 200 <= answer.status < 300:
            raise NotTakenError(f"it answered {answer.status}")


def _why(error: HTTPError) -> str:
    """In words, without the address that urllib3's own are full of."""
    reason = error.reason if isinstance(error, MaxRetryError) and error.reason else error
    match reason:
        case ResponseError():
            # "too many 500 error responses": the last status, and no address.
            return f"it answers with an error, again and again ({reason})"
        case ReadTimeoutError():
            return "it took the connection and did not answer in time"
        case ConnectTimeoutError() | NewConnectionError():
            return "it cannot be reached"
        case _:
            return type(reason).__name__
