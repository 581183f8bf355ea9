"""Why the worker cannot start, with the remedy and the exit code."""

from pydantic import ValidationError


class StartError(Exception):
    """Starting again with the same surroundings would fail again."""

    def __init__(self, what: str, remedy: str, code: int) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy
        self.code = code


def problems(error: ValidationError, prefix: str = "") -> str:
    """Each wrong field with its value, in one sentence."""
    found = []
    for item in error.errors():
        name = prefix + ".".join(str(part) for part in item["loc"])
        value = "" if item["type"] == "missing" else f" (is {item['input']!r})"
        found.append(f"{name}: {item['msg']}{value}")
    return "; ".join(found)
