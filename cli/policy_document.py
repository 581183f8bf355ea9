"""A policy's file for the commands that take one: read and judged as a worker does."""

from pathlib import Path

from cli.errors import CommandError
from contract.names import ExitCode
from contract.policy import Policy
from worker.policy_document import judged


def read_policy(file: Path | None) -> Policy:
    """The policy of a file; the default one without a file.

    Raises:
        CommandError: it cannot be read, or is not valid; the message names each wrong line.
    """
    if file is None:
        return Policy()
    policy, wrong = judged(read_text(file))
    if policy is None:
        raise CommandError(
            "\n".join(f"{file}:{line}: {what}" for line, what in wrong),
            "Mend these lines; a worker would go on with the policy before. Fields: docs/policy.md.",
            ExitCode.DATA,
        )
    return policy


def read_text(file: Path) -> str:
    """A policy file as it is.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}.", "Name a policy file.", ExitCode.NO_INPUT) from error
