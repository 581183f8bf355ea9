"""Why a command cannot go on: said in one sentence with the remedy, and an exit code of its own."""

from typing import Final

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the number of SIGINT."""


class CommandError(Exception):
    """What happened, what can be done, and the exit code (``contract.names.ExitCode``)."""

    def __init__(self, what: str, remedy: str, code: int) -> None:
        super().__init__(f"{what}\n{remedy}")
        self.code = code
