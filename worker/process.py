"""How the processes of the control plane start and stop: settings from the environment, and an end that is told."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from pydantic import ValidationError
from temporalio.client import Client

from contract.names import ExitCode
from contract.wrong_settings import wrong_settings
from worker.errors import StartError
from worker.logs import configure_logs
from worker.settings import ProcessSettings

_log = logging.getLogger(__name__)


S = TypeVar("S", bound=ProcessSettings)


def run(command: str, settings: type[S], work: Callable[[S], Coroutine[Any, Any, None]]) -> int:
    """Work until told to stop. Returns the exit code; what waiting does not mend ends it at once, and is said."""
    try:
        given = settings()
    except ValidationError as error:
        print(f"{command}: {'; '.join(wrong_settings(error, settings))}", file=sys.stderr)
        return ExitCode.CONFIG
    configure_logs(given.log_level)
    try:
        asyncio.run(work(given))
    except StartError as error:
        _log.error("%s", error)
        return error.code
    return ExitCode.OK


def told_to_stop() -> "asyncio.Task[bool]":
    """Done as soon as SIGTERM or SIGINT comes."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return asyncio.create_task(stop.wait(), name="told-to-stop")


async def connected(connecting: Coroutine[Any, Any, Client], stopping: "asyncio.Task[bool]") -> Client | None:
    """The client; None when it was told to stop before anybody answered."""
    task = asyncio.create_task(connecting, name="connect")
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()


def end(code: int) -> NoReturn:
    """Leave without the interpreter's own tear-down, which the SDK's runtime may crash (temporalio #300)."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
