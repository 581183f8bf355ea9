"""What stands between a failed machine and its successor: what a look at the group finds, and what is done about it."""

from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import Field, model_validator

from contract.model import Document, Message


class GroupFinding(StrEnum):
    """What a look at the group before the point of no return may find. Each is also a key of the policy."""

    GROUP_GONE = "group-gone"
    INSTANCE_GONE = "instance-gone"
    REPLACE_UNHEALTHY_SUSPENDED = "replace-unhealthy-suspended"
    TERMINATE_SUSPENDED = "terminate-suspended"
    LAUNCH_SUSPENDED = "launch-suspended"
    HEALTH_CHECK_SUSPENDED = "health-check-suspended"
    ADMINISTRATIVELY_SUSPENDED = "administratively-suspended"
    AZ_REBALANCE = "az-rebalance"
    WANTS_FEWER = "wants-fewer"
    AT_MAX = "at-max"
    AT_MIN = "at-min"
    MAINTENANCE_POLICY = "maintenance-policy"
    SCALE_IN_PROTECTED = "scale-in-protected"
    STANDBY = "standby"
    TEMPLATE_MISSING = "template-missing"
    IMAGE_MISSING = "image-missing"
    IMAGE_CHANGED = "image-changed"
    INSTANCE_REFRESH = "instance-refresh"
    NODEGROUP_UPDATING = "nodegroup-updating"
    WARM_POOL = "warm-pool"
    TERMINATION_HOOK = "termination-hook"
    LAUNCH_HOOK = "launch-hook"
    RESERVATION_GONE = "reservation-gone"
    RESERVATION_FULL = "reservation-full"
    RESERVATION_ENDING = "reservation-ending"
    LAUNCHES_FAIL = "launches-fail"
    """For what does not pass by itself: a quota, an image, a template."""
    NO_CAPACITY = "no-capacity"
    """For what may pass: EC2 had none to give."""
    FAILED_REPAIRS = "failed-repairs"
    OTHER_REPAIRER = "other-repairer"


class Answer(StrEnum):
    """What is done about a finding. Declared from the least to the most cautious: the most cautious one found holds."""

    GO_ON = "go-on"
    SPARE_FIRST = "spare-first"
    """Have the successor proven before the work on the old machine is stopped."""
    REBOOT_FIRST = "reboot-first"
    """Reboot before giving the machine up, where the fault leaves that hope; else ask."""
    WAIT = "wait"
    """It passes by itself: look again until the deadline for the group, then ask."""
    ASK = "ask"


USUAL_ANSWERS: Final = MappingProxyType(
    {
        GroupFinding.GROUP_GONE: Answer.ASK,
        GroupFinding.INSTANCE_GONE: Answer.ASK,
        GroupFinding.REPLACE_UNHEALTHY_SUSPENDED: Answer.ASK,
        GroupFinding.TERMINATE_SUSPENDED: Answer.ASK,
        GroupFinding.LAUNCH_SUSPENDED: Answer.ASK,
        GroupFinding.HEALTH_CHECK_SUSPENDED: Answer.GO_ON,
        GroupFinding.ADMINISTRATIVELY_SUSPENDED: Answer.ASK,
        GroupFinding.AZ_REBALANCE: Answer.GO_ON,
        GroupFinding.WANTS_FEWER: Answer.ASK,
        GroupFinding.AT_MAX: Answer.GO_ON,
        GroupFinding.AT_MIN: Answer.GO_ON,
        GroupFinding.MAINTENANCE_POLICY: Answer.GO_ON,
        GroupFinding.SCALE_IN_PROTECTED: Answer.GO_ON,
        GroupFinding.STANDBY: Answer.ASK,
        GroupFinding.TEMPLATE_MISSING: Answer.ASK,
        GroupFinding.IMAGE_MISSING: Answer.ASK,
        GroupFinding.IMAGE_CHANGED: Answer.GO_ON,
        GroupFinding.INSTANCE_REFRESH: Answer.WAIT,
        GroupFinding.NODEGROUP_UPDATING: Answer.WAIT,
        GroupFinding.WARM_POOL: Answer.GO_ON,
        GroupFinding.TERMINATION_HOOK: Answer.GO_ON,
        GroupFinding.LAUNCH_HOOK: Answer.GO_ON,
        GroupFinding.RESERVATION_GONE: Answer.ASK,
        GroupFinding.RESERVATION_FULL: Answer.GO_ON,
        GroupFinding.RESERVATION_ENDING: Answer.ASK,
        GroupFinding.LAUNCHES_FAIL: Answer.ASK,
        GroupFinding.NO_CAPACITY: Answer.WAIT,
        GroupFinding.FAILED_REPAIRS: Answer.ASK,
        GroupFinding.OTHER_REPAIRER: Answer.GO_ON,
    }
)

FATAL: Final = frozenset({GroupFinding.GROUP_GONE, GroupFinding.INSTANCE_GONE, GroupFinding.LAUNCH_SUSPENDED})
"""What no policy can wave through: nothing would come in the machine's place."""


class Found(Message):
    """One finding about the group, with what the policy says to it."""

    finding: GroupFinding
    answer: Answer
    explanation: str
    """A clause that goes on after the group's name: what is there, and what it would lead to."""


class ReplaceCall(StrEnum):
    """How the group is told to replace an instance."""

    SET_HEALTH = "set-health"
    """``SetInstanceHealth``: the group ends it as unhealthy."""
    TERMINATE = "terminate"
    """``TerminateInstanceInAutoScalingGroup`` without changing the desired capacity: where health is not looked at."""


class RebootMode(StrEnum):
    """Whether a machine may be rebooted by the incident."""

    NEVER = "never"
    REPAIRABLE = "repairable"
    """For findings whose rule says that a reboot may repair them."""


class RebootBy(StrEnum):
    """How a machine is rebooted."""

    IN_PLACE = "in-place"
    """``RebootInstances``: on the hardware that it is on."""
    STOP_START = "stop-start"
    """``StopInstances`` and ``StartInstances``: on other hardware, where it may be stopped; else in place."""


class StartupTaint(StrEnum):
    """Who closes a new machine to work until it is proven (V6)."""

    NODEMEND = "nodemend"
    """Nodemend, when it claims the replacement, unless its kubelet did: new capacity that is no replacement is never
    held up, and neither is any while Nodemend is down; work may land in the seconds before the claim."""
    REGISTRATION = "registration"
    """The kubelet alone, from the launch template: work never lands early; what Nodemend did not claim, scale-ups and
    all that comes while it is down, waits for somebody else to remove the taint."""


class ReturningMachine(StrEnum):
    """What to do with a replacement that is a machine known to have failed before (V10)."""

    REFUSE = "refuse"
    WATCH = "watch"
    """Take it and say so in the record."""


class NodeJob(Document):
    """A short Job on one node: an image, a command, and how long it may take."""

    image: str = Field(min_length=1)
    command: tuple[str, ...] = Field(min_length=1)
    namespace: str = "default"
    patience: timedelta = Field(default=timedelta(minutes=5), gt=timedelta(0))
    devices: bool = True
    """Whether it asks for all devices of the node, so that the device plugin has to hand out each of them."""


class Probe(NodeJob):
    """The Job that a replacement must pass."""

    command: tuple[str, ...] = ()
    """Without one it counts the devices that the container sees; it takes a shell in the image."""


class ReplacementPolicy(Document):
    """How a machine of a group is given up, replaced and proven."""

    spare_first: bool = False
    """Have the replacement proven before the work on the old machine is stopped: capacity never dips."""
    answers: dict[GroupFinding, Answer] = Field(default_factory=dict)
    """Other answers than the usual ones to what a look at the group finds."""
    report_to_ec2: bool = False
    """Tell EC2 that the hardware is bad (``ReportInstanceStatus``) before it is given back."""
    reboot: RebootMode = RebootMode.NEVER
    reboot_by: RebootBy = RebootBy.IN_PLACE
    device_reset: NodeJob | None = None
    """The vendor's reset command, run privileged on the node before anything more is tried; None for none."""
    manual: bool = False
    """Whether a machine that nothing replaces is replaced by people, with the incident waiting for the proof."""
    required_daemon_sets: tuple[str, ...] = ()
    """``namespace/name`` of DaemonSets whose pod must be ready on a replacement (V7)."""
    probe: Probe | None = None
    """A Job that must succeed on a replacement while it is closed to other work (V9); None for none."""
    startup_taint: StartupTaint = StartupTaint.NODEMEND
    returning_machine: ReturningMachine = ReturningMachine.REFUSE
    failed_repairs_max: int = Field(default=3, ge=1)
    """Replacements of a group that may fail within a day before a human is asked (V11)."""

    def answer(self, finding: GroupFinding) -> Answer:
        """What to do about a finding."""
        return self.answers.get(finding, USUAL_ANSWERS[finding])

    @model_validator(mode="after")
    def _nothing_fatal_is_waved_through(self) -> "ReplacementPolicy":
        waved = sorted(f.value for f in FATAL if self.answers.get(f) not in (None, Answer.ASK, Answer.WAIT))
        if waved:
            raise ValueError(f"{waved} can be answered with `wait` or `ask` alone: no replacement would come")
        return self
