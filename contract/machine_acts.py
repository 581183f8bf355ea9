"""Arguments and results of the acts on the machine itself: it is mended or given up, and its successor is proven.

They are part of ``contract.acts``, by which everybody names them.
"""

from datetime import datetime, timedelta

from pydantic import Field

from contract.identity import Target
from contract.model import Message
from contract.replacement import Found, NodeJob, RebootBy, ReplaceCall, ReplacementPolicy, StartupTaint
from contract.trail import ActResult

# --- mend ----------------------------------------------------------------------------------------------------------


class MendMachine(Message):
    """Argument of ``reboot_machine`` and ``reset_devices``."""

    target: Target
    drill: bool = False
    by: RebootBy = RebootBy.IN_PLACE
    """How ``reboot_machine`` does it."""
    job: NodeJob | None = None
    """The vendor's reset command, for ``reset_devices``."""
    condition_types: tuple[str, ...] = ()
    """Node conditions that carried the fault."""
    serials: tuple[str, ...] = ()
    """Serial numbers of the devices that failed."""
    soak: timedelta
    deadline: timedelta


class Mended(ActResult):
    """Result of both: the machine is whole again, or it is not and the next rung is due."""

    whole: bool
    boot_id: str
    """Of the boot that was looked at."""
    explanation: str


# --- replace -------------------------------------------------------------------------------------------------------


class SurveyGroup(Message):
    """Argument of ``survey_group``: look at the group before anything irreversible."""

    target: Target
    rules: ReplacementPolicy = ReplacementPolicy()
    patience: timedelta | None = None
    """For what passes by itself; None to look once."""


class GroupSurvey(ActResult):
    """Result of ``survey_group``: the group as it was before the replacement."""

    group: str
    desired: int
    instances: tuple[str, ...]
    """Instance ids in the group: whatever is not among them later was launched later."""
    obstacles: tuple[str, ...] = ()
    """Why a replacement would not come, in words (A4); empty when nothing stands in the way."""
    findings: tuple[Found, ...] = ()
    """All that was found, with the answers of the policy."""
    call: ReplaceCall = ReplaceCall.SET_HEALTH
    spare_first: bool = False
    """Whether the replacement is to be proven before the old machine's work is stopped."""
    reboot_first: bool = False
    """Whether the machine had better be rebooted than given up now."""
    image: str = ""
    """Machine image that it launches, where one is known for all that it launches."""
    at: datetime | None = None
    """When the group was looked at: what it launched before is not the replacement."""


class RaiseSpare(Message):
    """Argument of ``raise_spare``: put the instance on standby, so that the group launches another beside it."""

    target: Target
    drill: bool = False


class SpareRaised(ActResult):
    """Result of ``raise_spare``."""

    instance_id: str
    already: str = ""
    at: datetime


class MarkUnhealthy(Message):
    """Argument of ``mark_instance_unhealthy``."""

    target: Target
    drill: bool = False
    call: ReplaceCall = ReplaceCall.SET_HEALTH
    report_to_ec2: bool = False
    spare_is_up: bool = False
    """Whether this incident put the instance on standby and has its successor proven."""
    reason: str = ""
    """What is wrong with it, for EC2 and for the memory of machines that failed."""
    serials: tuple[str, ...] = ()
    """Serial numbers of the devices that failed."""
    job: str = ""
    """The work that held its devices."""


class MarkedUnhealthy(ActResult):
    """Result of ``mark_instance_unhealthy``."""

    instance_id: str
    already: str = ""
    """The state that made a call needless, e.g. ``Terminating:Wait``; empty when the call was made."""
    at: datetime
    reported: bool = False
    """Whether EC2 was told that it is bad."""
    policy_version: str = ""
    """Of the policy that still allowed the call, at the last moment."""


class AwaitReplacement(Message):
    """Argument of ``await_replacement``."""

    target: Target
    survey: GroupSurvey
    deadline: timedelta
    startup_taint: StartupTaint = StartupTaint.REGISTRATION


class Replacement(ActResult):
    """Result of ``await_replacement``: the launch claimed for this incident, and its Node."""

    instance_id: str
    node: str
    node_uid: str
    zone: str
    instance_type: str


class VerifyReplacement(Message):
    """Argument of ``verify_replacement``."""

    target: Target
    replacement: Replacement
    soak: timedelta
    deadline: timedelta
    rules: ReplacementPolicy = ReplacementPolicy()
    condition_types: tuple[str, ...] = ()
    """Node conditions that carried the fault: true on the new machine, it is bad as well (V8)."""
    serials: tuple[str, ...] = ()
    """Serial numbers of the devices that failed."""
    image: str = ""
    """Machine image that the group launches (V2); empty where that is not known."""


class Verified(ActResult):
    """Result of ``verify_replacement``."""

    checks: tuple[str, ...]
    """What was proven, in words, one per check."""
    devices: dict[str, int] = Field(default_factory=dict)
    ready_since: datetime
