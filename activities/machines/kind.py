"""The seam: what an incident needs of whoever brings another machine, be it Auto Scaling, Karpenter or a person."""

from dataclasses import dataclass
from typing import Protocol

from contract.acts import AwaitReplacement, GroupSurvey, MarkUnhealthy, SurveyGroup
from contract.identity import NodeIdentity


@dataclass(frozen=True)
class Launches:
    """What was launched since the survey, as far as it may be this incident's."""

    instance_ids: tuple[str, ...] = ()
    """The likeliest first."""
    waits_for: str = ""
    """What the next thing to come is, where nothing can be claimed yet."""
    obstacles: tuple[str, ...] = ()
    """What stands in the way, in words."""
    hopeless: str = ""
    """Why waiting brings nothing, e.g. a quota; empty while it may."""
    left_over: tuple[str, ...] = ()
    """Launched before the survey, in a neighbour's place: where the neighbour took ours, its own is left for us."""
    complete: bool = False
    """Whether there is all that the group wants, so that no other launch will come."""


class Replacer(Protocol):
    """One way of replacing machines. Reads what it needs each time; keeps nothing."""

    def survey(self, argument: SurveyGroup, failed_repairs: int) -> GroupSurvey:
        """See whether the machine would be replaced, after so many replacements that failed lately. Reads only."""

    def over(self, argument: MarkUnhealthy) -> str:
        """The state that makes replacing needless, for an earlier try may have done it; empty when it is to be done.

        Raises:
            ApplicationError: it must not be done, e.g. because the machine belongs to another group by now.
        """

    def replace(self, argument: MarkUnhealthy) -> None:
        """Give the machine up: the point of no return. Called once everything was checked."""

    def launched(self, argument: AwaitReplacement) -> Launches:
        """What came since the survey."""

    def state(self, identity: NodeIdentity) -> str:
        """The old machine's state; ``terminated`` at its end."""
