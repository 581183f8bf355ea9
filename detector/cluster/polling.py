"""A thread that asks something now and then, and says once what keeps it from an answer."""

import random
import threading
from collections.abc import Callable

from detector.trouble import Trouble


class Polling:
    """Asks until it is stopped."""

    def __init__(self, name: str, every_s: float, ask: Callable[[], None], say: Callable[[str], None]) -> None:
        self._every_s = every_s
        self._ask = ask
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait a moment for it."""
        self._stop.set()
        self._thread.join(5)

    def pause(self, seconds: float) -> None:
        """Between two questions.

        Raises:
            Trouble: there is to be no other.
        """
        if self._stop.wait(seconds):
            raise Trouble("This replica stops asking.")

    def _run(self) -> None:
        told = ""
        while not self._stop.is_set():
            try:
                self._ask()
                told = ""
            except Trouble as trouble:
                if str(trouble) != told and not self._stop.is_set():
                    told = str(trouble)
                    self._say(told)
            # A tenth of jitter, so that the clusters of an account do not ask together.
            self._stop.wait(self._every_s * random.uniform(0.9, 1.1))  # noqa: S311
