"""A courier whose Temporal refuses its credentials says so, and the finding stays in the spool."""

import pytest

from contract.fault import FaultReport
from detector.temporal_side import TemporalSide
from detector.trouble import Trouble
from tests.operating.gateway import refusing_gateway
from tests.runbook.world import finding


@pytest.mark.parametrize("status", [7, 16], ids=["permission denied", "unauthenticated"])
async def test_wrong_credentials_are_told_apart_from_a_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    report: FaultReport = finding()
    with refusing_gateway(status, "request unauthorized") as address:
        monkeypatch.setenv("TEMPORAL_ADDRESS", address)
        with pytest.raises(Trouble) as raised:
            await TemporalSide().deliver(report)
    assert "refuses these credentials" in str(raised.value)
    assert "TEMPORAL_API_KEY" in str(raised.value)
