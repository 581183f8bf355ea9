"""Many calls of Temporal from one act, some at a time: one after another a thousand take longer than the act may."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 20


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The answers, in the order of the calls. What one raises, this raises."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Awaitable[T]) -> T:
        async with gate:
            return await call

    return await asyncio.gather(*(one(call) for call in calls))
