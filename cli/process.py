"""How every command runs and ends: errors become a sentence and an exit code, and nothing is left running."""

import asyncio
import gc
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import typer

from cli.errors import INTERRUPTED, CommandError
from contract.names import ErrorType, ExitCode

T = TypeVar("T")
_GARBAGE: Final = (200_000, 50, 100)
"""When the collector looks. A command loads a lot, makes no cycles to speak of and ends: looking as often as a server
should costs `status` of a thousand incidents a fifth of its time."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do what talks to Temporal.

    Raises:
        CommandError: Temporal refuses, or does not answer.
    """
    gc.set_threshold(*_GARBAGE)
    from temporalio.service import RPCError

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        typer.echo("Stopped looking. Incidents go on.", err=True)
        end(INTERRUPTED)
    except RPCError as error:
        from cli.connection import explained

        raise explained(error) from error


def end(code: int) -> NoReturn:
    """Leave without the interpreter's own tear-down, which the SDK's runtime may crash (temporalio #300)."""
    for stream in (sys.stdout, sys.stderr):
        # The reader of a pipe may have left, as `head` does.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def reading_cluster(remedy: str) -> Iterator[None]:
    """What goes wrong with Kubernetes or AWS inside, as a command says it. ``remedy``: what to do besides waiting.

    Raises:
        CommandError: none is configured, it refuses, or it cannot be reached.
    """
    from temporalio.exceptions import ApplicationError

    from worker.errors import StartError

    try:
        yield
    except StartError as error:
        raise CommandError(error.what, error.remedy, error.code) from error
    except ApplicationError as error:
        denied = error.type == ErrorType.ACCESS_DENIED
        raise CommandError(error.message, remedy, ExitCode.NO_PERMISSION if denied else ExitCode.UNAVAILABLE) from error


def write_file(option: str, file: Path, text: str) -> None:
    """Write what a command was told to write. ``option``: which of its options named the file.

    Raises:
        CommandError: it cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"{option}: {file} cannot be written: {error.strerror}.",
            "Name a file in a folder of yours.",
            ExitCode.NO_INPUT,
        ) from error


def console() -> Any:
    """For people."""
    from rich.console import Console

    return Console()
