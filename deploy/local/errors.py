"""What can go wrong with the embedded stack, said so that the reader knows what to do next."""

import os


class StackError(Exception):
    """A part of the embedded stack could not be had.

    ``what`` says what failed, ``remedy`` what the reader can do about it, ``exit_code`` is the sysexits code with
    which a command ends.
    """

    exit_code = os.EX_UNAVAILABLE

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}\n{remedy}")
        self.what = what
        self.remedy = remedy


class ConfigurationError(StackError):
    """The machine or its settings do not allow the stack: trying again does not help, changing them does."""

    exit_code = os.EX_CONFIG
