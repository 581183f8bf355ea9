"""Who made a job hang, when the node that says so is not the one: what the search for the culprit found."""

from pydantic import Field

from contract.model import Message


class Suspect(Message):
    """A node of the job with something against it around the moment."""

    node: str
    instance_id: str = ""
    evidence: tuple[str, ...]
    """Clauses: what is seen of it, the gravest first."""
    incident: str = ""
    """The incident that has the node already; empty where none does."""


class CulpritSearch(Message):
    """What a look at all nodes of a hanging job gave."""

    job: str
    nodes: int = Field(ge=0)
    """Other nodes of the job that were looked at."""
    suspects: tuple[Suspect, ...] = ()
    """The likeliest; several only where nothing tells them apart; none where nothing is against any."""
    others_ask: bool = False
    """Another incident of the same job asks about the same node already: one question is enough for people."""
