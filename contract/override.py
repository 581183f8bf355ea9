"""What a human tells a running incident: one argument, always with ``by`` and ``reason``."""

import hashlib

from pydantic import Field

from contract.model import Document, Text


class Override(Document):
    """Argument of every override, as signal and as update. Example: ``{"by": "ada", "reason": "spare is in"}``."""

    by: Text
    """Who presses. Temporal does not know it, so it must be said."""
    reason: Text
    id: str = Field(default="", max_length=100)
    """Identity of the act: sent as signal and as update, it applies once. Empty: derived from by and reason."""

    def act_id(self, name: str) -> str:
        """Identity of this act under the override's name."""
        if self.id:
            return f"{name}/{self.id}"
        digest = hashlib.sha256(f"{self.by}\n{self.reason}".encode()).hexdigest()[:12]
        return f"{name}/{digest}"
