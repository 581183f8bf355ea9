"""Many threads ask about one thing each; one call asks for all of them.

A hundred incidents that each look once a second would be throttled, with everything else in the account (A21). What
is answered was always asked for after the question: reading before writing stays that (A9), and nothing is cached.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

WINDOW_S: Final = 0.02
"""How long the first question waits for others."""
PACE_S: Final = 1.0
"""Between two calls of one kind: however many ask, there is no more than one a second from one process."""


class _Batch(Generic[K, V]):
    def __init__(self) -> None:
        self.keys: set[K] = set()
        self.answer: Future[Mapping[K, V]] = Future()


class Gathering(Generic[K, V]):
    """Questions of one kind. Safe to use from several threads."""

    def __init__(
        self,
        ask: Callable[[list[K]], Mapping[K, V]],
        at_most: int,
        pace_s: float = PACE_S,
        window_s: float = WINDOW_S,
    ) -> None:
        """``ask`` answers at most ``at_most`` keys at once; a key that it leaves out has no answer."""
        self._ask = ask
        self._at_most = at_most
        self._pace_s = pace_s
        self._window_s = window_s
        self._lock = threading.Lock()
        self._open: _Batch[K, V] | None = None
        self._free_at = 0.0

    def get(self, key: K) -> V | None:
        """The answer as of now; None where there is none. What the call raises, everybody who waits for it gets."""
        with self._lock:
            batch = self._open
            leads = batch is None or (key not in batch.keys and len(batch.keys) >= self._at_most)
            if batch is None or leads:
                batch = self._open = _Batch()
                goes_at = max(time.monotonic() + self._window_s, self._free_at)
                self._free_at = goes_at + self._pace_s
            batch.keys.add(key)
        if leads:
            time.sleep(max(0.0, goes_at - time.monotonic()))
            self._call(batch)
        return batch.answer.result().get(key)

    def _call(self, batch: _Batch[K, V]) -> None:
        with self._lock:
            if self._open is batch:
                self._open = None
        try:
            batch.answer.set_result(self._ask(sorted(batch.keys, key=str)))
        except BaseException as error:
            batch.answer.set_exception(error)
