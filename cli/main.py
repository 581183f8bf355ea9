"""`nodemend`: one command for operators and developers.

Heavy modules are imported by the command that needs them, so that ``--help`` answers at once.
"""

import os
import traceback
from collections.abc import Callable
from typing import Final

import typer

from cli import seeing, starting, steering
from cli.doctor.command import doctor
from cli.errors import CommandError
from cli.judging import commands
from cli.lazily import Lazily
from cli.options import EXIT_CODES
from cli.process import end
from cli.simulation.mounted import simulate
from contract.names import ExitCode

app = typer.Typer(
    cls=Lazily,
    no_args_is_help=True,
    help="Repairs failing nodes of Kubernetes training fleets: durable, checkpoint-aware, with a complete record.",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PASS_ON: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""What follows is somebody else's to read, `--help` too."""


def local() -> None:
    """The embedded stack: Temporal, Kubernetes and AWS on this machine."""


def rules() -> None:
    """The rules of the detector: list, show, check, test a line, classify many, import from another detector."""


def policy() -> None:
    """The policy: check a file line by line, show what holds."""


def audit() -> None:
    """Who did what, when and why, in which incident; and whether anybody changed the logs since."""


_COMMANDS: Final[dict[str, tuple[Callable[..., None], ...]]] = {
    "Look": (
        seeing.status,
        seeing.watch,
        seeing.report,
        seeing.budget,
        audit,
        seeing.history,
        seeing.ui,
        doctor,
    ),
    "Steer": (
        steering.approve,
        steering.hold,
        steering.resume,
        steering.retry_step,
        steering.skip_step,
        steering.extend_deadline,
        steering.abort,
        steering.release,
        steering.acknowledge,
        steering.pause,
        steering.uninstall,
    ),
    "Judge before it happens": (
        commands.plan,
        commands.replay,
        commands.scorecard,
        simulate,
        rules,
        policy,
    ),
    "Run": (
        starting.demo,
        local,
        starting.work,
        starting.detect,
        starting.watch_cluster,
        starting.page,
        starting.codec_server,
        starting.checkpoint_agent,
    ),
}
"""As ``--help`` shows them."""
_TELL_THEIR_OWN_HELP: Final = (starting.detect, starting.watch_cluster, starting.checkpoint_agent)
for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        _name = _command.__name__.replace("_", "-")
        if _command in _TELL_THEIR_OWN_HELP:
            app.command(_name, rich_help_panel=_panel, add_help_option=False, context_settings=_PASS_ON)(_command)
        else:
            app.command(_name, rich_help_panel=_panel, epilog=EXIT_CODES)(_command)


def main() -> None:
    """Entry point. Whatever goes wrong ends in a sentence and an exit code."""
    code: int = ExitCode.SOFTWARE
    try:
        app(standalone_mode=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else ExitCode.OK if ended.code is None else ExitCode.FAILED
    except CommandError as error:
        typer.echo(str(error), err=True)
        code = error.code
    except Exception as error:
        typer.echo(
            f"A fault of ours stopped the command: {type(error).__name__}: {error}\n"
            "Please report it, with what NODEMEND_DEBUG=1 shows in addition.",
            err=True,
        )
        if os.environ.get("NODEMEND_DEBUG"):
            traceback.print_exc()
    # Every way out, for the SDK's runtime may crash in the interpreter's own tear-down.
    end(code)
