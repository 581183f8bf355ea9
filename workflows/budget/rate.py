"""Token buckets: when a storm is over, those who waited go one after another and not all at once."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from contract.budget import Bucket, Limit
from contract.budget_policy import BudgetPolicy, Rate
from contract.permit import PermitKind, PermitRequest
from workflows.budget.refusal import Refusal


class Rates:
    """The buckets, filled up to now."""

    def __init__(self, policy: BudgetPolicy, buckets: Mapping[str, Bucket], now: datetime) -> None:
        self._rates = {PermitKind.DISRUPTION: policy.disruptions, PermitKind.QUARANTINE: policy.quarantines}
        self._now = now
        self._tokens = {kind: _filled(rate, buckets.get(kind), now) for kind, rate in self._rates.items()}

    def refusal(self, request: PermitRequest) -> Refusal | None:
        """Whether the bucket is empty, and when there is a token again."""
        tokens, rate = self._tokens[request.kind], self._rates[request.kind]
        if tokens >= 1:
            return None
        at = self._now + timedelta(hours=(1 - tokens) / rate.per_hour)
        return Refusal(
            Limit.RATE,
            f"the rate of {request.kind} permits is used up ({rate.per_hour:g} an hour, {rate.burst} at once)",
            f"The next one is free at {at:%H:%M:%S} UTC.",
        )

    def take(self, kind: PermitKind) -> None:
        """Spend a token. What a human approved may go without one, and still empties the bucket."""
        self._tokens[kind] = max(0.0, self._tokens[kind] - 1)

    def buckets(self) -> dict[str, Bucket]:
        """To be remembered."""
        return {str(kind): Bucket(tokens=tokens, at=self._now) for kind, tokens in self._tokens.items()}


def _filled(rate: Rate, bucket: Bucket | None, now: datetime) -> float:
    if bucket is None:
        return float(rate.burst)
    hours = max(0.0, (now - bucket.at) / timedelta(hours=1))
    return min(float(rate.burst), bucket.tokens + hours * rate.per_hour)
