"""Why the worker cannot start, with the remedy and the exit code."""


class StartError(Exception):
    """Starting again with the same surroundings would fail again."""

    def __init__(self, what: str, remedy: str, code: int) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy
        self.code = code
