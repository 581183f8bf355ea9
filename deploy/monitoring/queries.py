"""What Prometheus has to be asked, where the plain question gets a wrong answer from a fleet that seldom fails."""

from typing import Final

TOLD_AT: Final = "nodemend_budget_timestamp_seconds"
"""When FleetBudget last set its gauges in a process."""


def grown(series: str, span: str) -> str:
    """By how much counters grew, those too that began within the span.

    A series with labels begins with its first event, at 1, and Prometheus's ``increase`` sees growth from the second
    on: with a few incidents a week it would see none.
    """
    return f"(increase({series}[{span}]) and {series} offset {span} or {series})"


def of_the_budget(gauge: str) -> str:
    """A gauge of FleetBudget from the process that runs it now.

    It moves between workers, and the one that had it before goes on serving what it saw last.
    """
    return f"({gauge} and on (instance) topk(1, {TOLD_AT}))"
