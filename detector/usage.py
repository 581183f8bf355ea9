"""What a process that is set up by environment variables alone says of them: its help."""

import socket
import sys
from collections.abc import Sequence

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from contract.names import ExitCode
from contract.wrong_settings import variable_of

Variable = tuple[str, str, str]
"""Name, default, meaning."""


def tell_usage(
    argv: Sequence[str], command: str, purpose: str, settings: type[BaseSettings], more: Sequence[Variable]
) -> int:
    """Print the table of the variables; anything but a request for help is a mistake. Returns the exit code."""
    asked = set(argv) <= {"-h", "--help"}
    own = [
        (variable_of(name, field), _default(field), field.description or "")
        for name, field in settings.model_fields.items()
    ]
    lines = [
        f"Usage: {command}      {purpose} All settings are environment variables:",
        "",
        *(f"  {name:28} {default:18} {meaning}" for name, default, meaning in (*own, *more)),
        "",
        f"Exit codes: {ExitCode.OK} stopped by a signal, {ExitCode.USAGE} wrong usage, {ExitCode.DATA} a rule cannot "
        f"be used, {ExitCode.CONFIG} a setting is wrong. What cannot be reached is tried again, and ends nothing.",
    ]
    print("\n".join(lines), file=sys.stdout if asked else sys.stderr)
    return ExitCode.OK if asked else ExitCode.USAGE


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is socket.gethostname:
        return "host name"
    return "none" if field.default is None else str(field.default)
