"""How webhooks are signed: HMAC-SHA256 over the time and the body, as Slack and Stripe sign theirs.

So what is caught on the way can neither be changed nor played again later.
"""

import hashlib
import hmac
import time
from typing import Final

SIGNATURE: Final = "X-Nodemend-Signature"
TIMESTAMP: Final = "X-Nodemend-Timestamp"


def signed(secret: bytes, data: bytes) -> dict[str, str]:
    """The headers that prove who sends this body now; none without a secret."""
    if not secret:
        return {}
    now = str(int(time.time()))
    return {TIMESTAMP: now, SIGNATURE: signature(secret, now, data)}


def signature(secret: bytes, timestamp: str, data: bytes) -> str:
    """What a receiver computes anew and compares in constant time."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + data, hashlib.sha256).hexdigest()
