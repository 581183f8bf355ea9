"""Maintenance windows: when a group may be disturbed. Times are of a named zone, so that summer time is right."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import field_validator, model_validator

from contract.model import Document


class Day(StrEnum):
    """Days of the week, as people write them in a policy."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


class MaintenanceWindow(Document):
    """A stretch of time on some days. One that ends before it starts ends on the next day."""

    days: tuple[Day, ...] = tuple(Day)
    """Days on which it starts."""
    start: time
    end: time
    timezone: str = "UTC"
    """A name of the IANA time zone database, e.g. ``Europe/Berlin``."""

    @field_validator("days")
    @classmethod
    def _some_day(cls, value: tuple[Day, ...]) -> tuple[Day, ...]:
        if not value:
            raise ValueError("a window on no day never opens: leave `days` out for every day")
        return value

    @field_validator("start", "end")
    @classmethod
    def _without_zone(cls, value: time) -> time:
        if value.tzinfo:
            raise ValueError("give the time without a zone, and the zone as `timezone`")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"{value!r} is no time zone that this machine knows, e.g. Europe/Berlin") from error
        return value

    @model_validator(mode="after")
    def _has_length(self) -> "MaintenanceWindow":
        if self.start == self.end:
            raise ValueError("a window that ends when it starts never opens: leave `maintenance` out for no windows")
        return self

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Its openings from yesterday's on, for a week and a day."""
        zone = ZoneInfo(self.timezone)
        today = now.astimezone(zone).date()
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            if tuple(Day)[day.weekday()] in self.days:
                until = day + timedelta(days=1) if self.end <= self.start else day
                yield _moment(day, self.start, zone), _moment(until, self.end, zone)


def opens_at(windows: Iterable[MaintenanceWindow], now: datetime) -> datetime | None:
    """When the next window opens; None while one is open, or where there are none."""
    spans = [span for window in windows for span in window.spans(now)]
    if any(start <= now < end for start, end in spans):
        return None
    return min((start for start, _ in spans if start > now), default=None)


def _moment(day: date, clock: time, zone: ZoneInfo) -> datetime:
    # In UTC: what two datetimes of one zone compare as is their wall clocks, wrong across a change of summer time.
    return datetime.combine(day, clock, zone).astimezone(ZoneInfo("UTC"))
