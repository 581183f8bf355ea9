"""The price of an approval: what stops, what is lost, and what it costs to wait. Pure, with golden files."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from contract.identity import Target
from contract.model import Message
from contract.words import counted

_LISTED: Final = 5
"""Jobs in words; the rest are counted."""


class JobPrice(Message):
    """One job that the disruption stops."""

    job: str
    """``namespace/kind/name``."""
    pods: int = 0
    """Of it on the node."""
    nodes: int = 1
    alive: bool = True
    """Whether any of its pods runs."""
    accelerators: int = 0
    """Devices that all its pods hold."""
    attempt: int | None = None
    """Which attempt this is, from one; None where nothing counts them, or nobody knows."""
    attempts: int | None = None
    """How many it has in all."""
    ends: bool = False
    """Whether the disruption ends it for good."""
    why: str = ""
    """About attempts, in words."""
    declared: bool = False
    """Whether it declares a checkpoint."""
    step: int | None = None
    saved_at: datetime | None = None
    """Its newest checkpoint, as far as that could be read without asking for one."""
    unread: str = ""
    """Why none could be read."""


class Price(Message):
    """What an approval costs, at one moment."""

    at: datetime
    jobs: tuple[JobPrice, ...] = ()
    jobs_total: int = 0
    pods: int = 0
    """That have to move."""
    group: str = ""
    others: int = 0
    """Other nodes of the group."""
    free: int = 0
    """Of them: open, Ready, and without work that holds devices."""
    idle: int = 0
    """Accelerators that stand idle while it is waited: of the node, and of jobs that are dead."""


class PriceDisruption(Message):
    """Argument of ``price_disruption``."""

    target: Target


def lines(price: Price) -> tuple[str, ...]:
    """The price in sentences, a line each."""
    more = price.jobs_total - min(len(price.jobs), _LISTED)
    return (
        *(_job(job, price.at) for job in price.jobs[:_LISTED]),
        *((f"And {counted(more, 'more job')}.",) if more > 0 else ()),
        f"{counted(price.pods, 'pod has', 'pods have')} to move." if price.pods else "No pod has to move.",
        _spare(price),
        _waiting(price),
    )


def in_short(price: Price) -> str:
    """The price in one sentence."""
    parts = [_stops(price)]
    ages = [age for job in price.jobs if (age := _age(job, price.at)) is not None]
    if ages:
        parts.append(f"up to {_duration(max(ages))} of work since the last checkpoint")
    parts.append(f"{price.free} of {counted(price.others, 'other node')} free" if price.others else "no other node")
    parts.append(f"each hour of waiting {counted(price.idle, 'idle accelerator-hour')}" if price.idle else "")
    return f"Price: {'; '.join(part for part in parts if part)}."


def _stops(price: Price) -> str:
    alive = [job for job in price.jobs if job.alive]
    if not alive:
        return "no job stops, for none runs" if price.jobs else "no job stops"
    first = alive[0]
    count = f" (attempt {first.attempt} of {first.attempts})" if first.attempt and first.attempts else ""
    others = price.jobs_total - (len(price.jobs) - len(alive)) - 1
    more = f" and {counted(others, 'more job')}" if others > 0 else ""
    end = " for good" if first.ends else ""
    return f"stops {first.job}{count}{end}{more}"


def _job(job: JobPrice, now: datetime) -> str:
    where = f"{counted(job.pods, 'pod')} here" + (f", {job.nodes} nodes in all" if job.nodes > 1 else "")
    if not job.alive:
        return f"{job.job} ({where}) does not run any more: there is nothing to stop."
    return f"{job.job} stops ({where}){_attempt(job)}. {_lost(job, now)}"


def _attempt(job: JobPrice) -> str:
    why = f" ({job.why})" if job.why else ""
    if job.ends:
        return f" for good{why}"
    if job.attempt is None:
        return f"; nothing counts its attempts{why}"
    return f", in attempt {job.attempt} of {job.attempts}{why}" if job.attempts else f", in attempt {job.attempt}{why}"


def _lost(job: JobPrice, now: datetime) -> str:
    if not job.declared:
        return "It declares no checkpoint: all since its own last save is lost."
    age = _age(job, now)
    if age is None:
        return f"Its newest checkpoint is not known{f' ({job.unread})' if job.unread else ''}."
    return f"Its newest checkpoint (step {job.step}) is {_duration(age)} old: so much is lost if it can save none now."


def _spare(price: Price) -> str:
    place = price.group or "no group"
    if not price.others:
        return f"{place} has no other node: what stops waits for the replacement."
    others = counted(price.others, "other node")
    if price.others == 1:
        other = f"The one other node of {place}"
        return f"{other} is free." if price.free else f"{other} is not free: what stops waits for the replacement."
    if not price.free:
        return f"None of the {others} of {place} is free: what stops waits for the replacement."
    return f"{price.free} of the {others} of {place} {'is' if price.free == 1 else 'are'} free."


def _waiting(price: Price) -> str:
    if not price.idle:
        return "No accelerator stands idle while you think; the machine that works on is a failing one."
    return (
        f"{counted(price.idle, 'accelerator stands', 'accelerators stand')} idle: each hour of waiting costs "
        f"{counted(price.idle, 'accelerator-hour')}."
    )


def _age(job: JobPrice, now: datetime) -> timedelta | None:
    return max(now - job.saved_at, timedelta(0)) if job.saved_at and job.alive else None


def _duration(age: timedelta) -> str:
    minutes = int(age / timedelta(minutes=1))
    if minutes < 1:
        return "less than a minute"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def total_idle(devices: int, held: int, dead: Sequence[int]) -> int:
    """Accelerators that do nothing: those of the node that no running pod holds, and those of jobs that are dead."""
    return max(0, devices - held) + sum(dead)
