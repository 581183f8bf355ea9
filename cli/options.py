"""Arguments that several commands share, and the words that end each one's help."""

import os
import pwd
from typing import Annotated, Final

import typer

from cli.errors import INTERRUPTED
from contract.names import ExitCode

EXIT_CODES: Final = f"""Exit codes: {ExitCode.OK} done · {ExitCode.FAILED} refused, or ended without a healthy node ·
{ExitCode.USAGE} wrong usage, or it fits several incidents · {ExitCode.DATA} a file is not valid ·
{ExitCode.NO_INPUT} not found · {ExitCode.UNAVAILABLE} Temporal cannot be reached · {ExitCode.SOFTWARE} a fault of
ours · {ExitCode.NO_PERMISSION} refused credentials · {ExitCode.CONFIG} a setting is missing or wrong · {INTERRUPTED}
stopped by Ctrl-C."""


def _user() -> str:
    """Who is logged in; cron jobs and shells in a pod have no ``USER``, and their account has a name all the same."""
    try:
        return os.environ.get("USER") or os.environ.get("LOGNAME") or pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


ReasonOption = Annotated[str, typer.Option("--reason", "-r", help="Why; it is in the record.")]
ByOption = Annotated[str, typer.Option("--by", help="Who; it is in the record.")]
USER: Final = _user()
GroupOption = Annotated[str | None, typer.Option("--group", help="One node group; left out: the whole cluster.")]
ActOption = Annotated[str, typer.Option("--id", help="Identity of this act; the same id applies once.")]
TargetArgument = Annotated[str, typer.Argument(help="A node's name, or an incident's id.")]
