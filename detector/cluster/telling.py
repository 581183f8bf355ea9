"""Saying things once: a trouble that lasts is one line in the log, and its end another."""

import random
import re
import time
from collections.abc import Callable
from typing import Final

_NUMBER: Final = re.compile(r"\d+")
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0


class Telling:
    """What was said last about each matter."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[str, str] = {}

    def so(self, about: str, sentence: str) -> None:
        """It is so. Said when it is new; other numbers alone are no news."""
        if _NUMBER.sub("", self._told.get(about, "")) != _NUMBER.sub("", sentence):
            self._say(sentence)
        self._told[about] = sentence

    def over(self, about: str, sentence: str = "") -> None:
        """It is not so any more. Said, where there is something to say, when it was."""
        if self._told.pop(about, None) is not None and sentence:
            self._say(sentence)


class Pause:
    """How long to wait after failures: longer each time, with full jitter."""

    def __init__(self) -> None:
        self._next_s = _FIRST_PAUSE_S
        self._until = 0.0

    def failed(self) -> None:
        """It failed again."""
        self._until = time.monotonic() + random.uniform(0.0, self._next_s)  # noqa: S311
        self._next_s = min(self._next_s * 2, _LONGEST_PAUSE_S)

    def worked(self) -> None:
        """It worked again."""
        self._next_s, self._until = _FIRST_PAUSE_S, 0.0

    @property
    def lasts(self) -> bool:
        """Not yet."""
        return time.monotonic() < self._until
