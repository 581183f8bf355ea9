"""Looking until something is so."""

import time
from collections.abc import Callable
from typing import Final

from deploy.local.errors import StackError

PATIENCE_S: Final = 30.0


def wait_for(done: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Look until it is so.

    Raises:
        StackError: it was not so in time.
    """
    until = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > until:
            raise StackError(
                f"Waited {patience_s:.0f} s in vain for {what}.",
                "See `logs/` in the stack's folder: kube-scheduler and kwok say what they did.",
            )
        time.sleep(0.1)
