"""What a human tells a running incident: one argument, always with ``by`` and ``reason``."""

import hashlib
from datetime import timedelta

from pydantic import Field

from contract.model import Document, Text


class Override(Document):
    """Argument of every override, as signal and as update. Example: ``{"by": "ada", "reason": "spare is in"}``."""

    by: Text
    """Who presses. Temporal does not know it, so it must be said."""
    reason: Text
    id: str = Field(default="", max_length=100)
    """Identity of the act: sent as signal and as update, it applies once. Empty: derived from the other fields."""
    extension: timedelta | None = Field(default=None, gt=timedelta(0), le=timedelta(hours=24))
    """With ``extend_deadline``: how much more time, as an ISO 8601 duration, e.g. ``PT30M``."""
    plan: str = Field(default="", max_length=100)
    """With ``approve``: digest of the plan that is approved. If it is another one by now, the approval is refused."""

    def act_id(self, name: str) -> str:
        """Identity of this act under the override's name."""
        if self.id:
            return f"{name}/{self.id}"
        said = "\n".join(str(part) for part in (self.by, self.reason, self.extension, self.plan) if part)
        digest = hashlib.sha256(said.encode()).hexdigest()[:12]
        return f"{name}/{digest}"
