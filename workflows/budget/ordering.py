"""Whose turn it is: the more severe and the longer waiting. An hour of waiting is worth a step of severity, so the
mildest fault is passed only by what came within a few hours of it: nobody starves."""

from datetime import datetime, timedelta
from typing import Final

from contract.permit import QueuedRequest

HEAD_START: Final = timedelta(hours=1)
"""What each step of severity is worth."""


def turn(queued: QueuedRequest) -> tuple[datetime, str]:
    """Sort key: the smallest goes first."""
    return queued.asked_at - queued.request.severity * HEAD_START, queued.request.token
