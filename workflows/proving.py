"""Findings that join a running incident count once their origin is proven, and not before.

Whoever has Temporal's credentials can send a signal; a false finding must not change what is done to a machine.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from contract import acts
    from contract.names import ActivityName, Phase
    from contract.words import counted
    from workflows.failures import describe
    from workflows.incident_state import Incident
    from workflows.timing import QUICK, RETRY

_PAUSE: Final = timedelta(seconds=30)
_LONGEST_PAUSE: Final = timedelta(hours=1)
"""Between two rounds: neither a chatty fault nor signals that nobody can prove may fill the history."""


async def prove_what_joins(incident: Incident, publish: Callable[[Phase | None], None]) -> None:
    """Prove findings as they join, for as long as the incident runs."""
    pause = _PAUSE
    while True:
        await workflow.wait_condition(lambda: bool(incident.unproven))
        asked = incident.unproven
        assert incident.identity is not None
        try:
            answer = await workflow.execute_activity(
                ActivityName.PROVE_REPORTS,
                acts.ProveReports(identity=incident.identity, reports=asked, patience=incident.policy.deadlines.proof),
                result_type=acts.Proven,
                start_to_close_timeout=QUICK.start_to_close,
                schedule_to_close_timeout=QUICK.schedule_to_close,
                heartbeat_timeout=QUICK.heartbeat,
                retry_policy=RETRY,
                summary=f"Whether {counted(len(asked), 'finding comes', 'findings come')} from the node itself."[:100],
            )
            keys: tuple[str, ...] = answer.keys
        except ActivityError as error:
            incident.note(f"Findings that joined are left out: {describe(error)[1]}")
            keys = ()
        known = len(incident.findings)
        incident.settle_proof(asked, frozenset(keys))
        publish(None)
        pause = _PAUSE if len(incident.findings) > known else min(pause * 2, _LONGEST_PAUSE)
        await workflow.sleep(pause, summary="Before more findings are looked at")
