"""A job's checkpoint: what the act that asks for it is told, and what came of it."""

from datetime import datetime, timedelta
from enum import StrEnum

from contract.fault import DataTrust
from contract.identity import Target
from contract.model import Message
from contract.permit import PermitRequest
from contract.policy import CheckpointPolicy, Otherwise
from contract.trail import ActResult


class RequestCheckpoints(Message):
    """Argument of ``request_checkpoints``."""

    target: Target
    nonce: str
    data: DataTrust
    device_resource: str | None = None
    evidence_since: datetime | None = None
    deadline: timedelta
    """For all answers together."""
    ranks_alive: bool = True
    """Whether the fault leaves processes on its node that can answer."""
    rules: CheckpointPolicy = CheckpointPolicy()
    leave_out: tuple[str, ...] = ()
    """Jobs that were asked as a whole already."""
    permit: PermitRequest | None = None
    """What allows it. None from incidents that were started before 0.2."""
    extended: timedelta = timedelta(0)
    """What a human added to the deadlines, which is in them: a job's own time-out moves as far."""


class CheckpointStatus(StrEnum):
    """What came of one job's checkpoint."""

    SAVED = "saved"
    """Asked, answered with our nonce, verified."""
    NAMED = "named"
    """Not asked, because the failing device may have spoiled its data: the last one from before is named."""
    UNDECLARED = "undeclared"
    """The job declares no checkpoint."""
    FAILED = "failed"
    """Asked, and no valid answer came before the deadline."""
    OBSERVED = "observed"
    """Never asked, as it declares: its newest manifest was read."""
    AT_END = "at-end"
    """Saves when it is ended, as it declares."""
    DEAD = "dead"
    """Dead or hung already: there was nothing to ask for."""


class JobCheckpoint(Message):
    """One job on the node and its checkpoint."""

    job: str
    """``namespace/kind/name`` of the pods' controller."""
    pod: str = ""
    status: CheckpointStatus
    step: int | None = None
    uri: str = ""
    saved_at: datetime | None = None
    suspect: int = 0
    """How many later checkpoints are suspect."""
    kept: str = ""
    """Of a named one: where it is kept from being deleted, or why it could not be, in words."""
    explanation: str = ""
    mode: str = ""
    """As the job declares it."""
    proof: str = ""
    """What stands behind it: ``file``, ``s3``, or the pod's own ``word``."""
    asks: int = 0
    """How often it was asked; every time with the same nonce."""
    previous_step: int | None = None
    previous_at: datetime | None = None
    """The newest checkpoint from before the request: what the job would have gone back to."""
    stands_at: int | None = None
    """The step that it said it was at."""
    accelerators: int = 0
    """Devices that the job holds, as far as its pods were seen."""
    otherwise: Otherwise = Otherwise.EVICT
    """What its owner or the policy wants where nothing was saved."""


class Checkpoints(ActResult):
    """Result of ``request_checkpoints``."""

    jobs: tuple[JobCheckpoint, ...] = ()
    jobs_total: int = 0
