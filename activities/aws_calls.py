"""One way to call AWS: bounded in time, with errors that say which permission or setting is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError
from botocore.parsers import ResponseParserError

from activities.errors import failure
from contract.names import ErrorType

CALL: Final = Config(
    connect_timeout=5,
    read_timeout=30,
    # Standard mode backs off with jitter when it is throttled (A21); what outlasts it, the act's own retries wait out.
    retries={"mode": "standard", "max_attempts": 6},
    max_pool_connections=50,
)
SHORT_CALL: Final = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 2})
"""For a person who waits for the answer."""
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "AuthFailure",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "ExpiredToken",
        "ExpiredTokenException",
        "SignatureDoesNotMatch",
    }
)
_BUSY: Final = frozenset({"ScalingActivityInProgress", "ResourceContention"})
"""Auto Scaling is at something else with this group (API reference, errors of each action)."""


class AbsentError(Exception):
    """AWS knows nothing of that name."""


@contextmanager
def calling(action: str, *, absent: tuple[str, ...] = ()) -> Iterator[None]:
    """Turn what AWS answers into errors for people.

    Args:
        action: as IAM writes it, e.g. ``ec2:DescribeInstances``.
        absent: error codes that mean that there is nothing of that name.

    Raises:
        AbsentError: one of ``absent``.
        ApplicationError: ``AccessDenied``, or ``Unreachable`` for what may pass.
    """
    try:
        yield
    except ClientError as error:
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        if code in absent:
            raise AbsentError(message) from error
        if code in _DENIED:
            raise failure(
                ErrorType.ACCESS_DENIED,
                f"AWS refuses `{action}` ({code}: {message}).",
                "Grant it to the worker's role, or mend its credentials, and press `resume`.",
            ) from error
        busy = " Auto Scaling is at something else with this group." if code in _BUSY else ""
        raise failure(
            ErrorType.UNREACHABLE, f"AWS answered {code} to `{action}`: {message}.{busy}", "It is tried again."
        ) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise failure(
            ErrorType.ACCESS_DENIED,
            f"There are no AWS credentials for `{action}`: {error}.",
            "Give the worker a role and press `resume`.",
        ) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise failure(
            ErrorType.UNREACHABLE,
            f"AWS cannot be reached for `{action}`: {error}.",
            "It is tried again; check the network and AWS_REGION.",
        ) from error
