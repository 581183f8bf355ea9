"""The rungs below replacement: a reboot, a reset of the devices, and the proof that the machine is whole after it.

What was tried is written on the Node, and into the cluster's memory, before it is tried: nothing is tried again on a
machine that failed again, be it under another Node, and nothing on a device that failed again in another machine.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio import activity

from activities.auto_scaling import AutoScaling
from activities.claim import claimed_node, conditional
from activities.cluster import Cluster, Json, retry_on_conflict
from activities.last_look import LastLook
from activities.machines.group import frozen_instance
from activities.memory import Memory
from activities.node_facts import boot_id, read_tried
from activities.node_jobs import job_name, node_job, run_once
from activities.objects import Objects
from activities.other_hardware import OtherHardware
from activities.waiting import deadline, go_on, overdue, pause, report_progress
from activities.whole import missing_on, stale_lease
from contract.acts import Mended, MendMachine
from contract.memory import TriedRung
from contract.names import TRIED_ANNOTATION, ActivityName
from contract.plan import Rung
from contract.policy import Policy
from contract.replacement import RebootBy

_LOOK_EVERY_S: Final = 1.0
_CLOCKS_DIFFER: Final = timedelta(minutes=1)


class MendActivity:
    """The acts ``reboot_machine`` and ``reset_devices``."""

    def __init__(
        self, cluster: Cluster, auto_scaling: AutoScaling, memory: Memory, policy: Callable[[], Policy]
    ) -> None:
        self._cluster = cluster
        self._memory = memory
        self._auto_scaling = auto_scaling
        self._elsewhere = OtherHardware(auto_scaling)
        self._objects = Objects(cluster)
        self._last_look = LastLook(cluster, policy)

    @activity.defn(name=ActivityName.REBOOT_MACHINE, no_thread_cancel_exception=True)
    def reboot_machine(self, argument: MendMachine) -> Mended:
        """Reboot the instance and look at it until it is whole for the soak time, or the deadline is over.

        The proof is another boot id: a second try that finds one reboots no more. Where the policy prefers other
        hardware it is stopped and started, and rebooted in place where it must not be stopped.

        Raises:
            ApplicationError: any reason not to, each with its type; then nothing was done.
        """
        identity = argument.target.identity
        instance_id = frozen_instance(identity)
        node = self._node(argument)
        moves, refused = self._has_begun_to_move(argument), ""
        if not moves and boot_id(node) == identity.boot_id:
            self._last_look(argument.target, drill=argument.drill)
            refused = self._elsewhere.why_not(identity) if argument.by is RebootBy.STOP_START else ""
            moves = argument.by is RebootBy.STOP_START and not refused
            self._remember(argument, Rung.REBOOT)
            if not moves:
                self._auto_scaling.ec2.reboot(instance_id)
        if moves and (failed := self._elsewhere.move(identity, deadline(argument.deadline))):
            return Mended(whole=False, boot_id=identity.boot_id, explanation=f"{failed}.")
        done = self._soak(
            argument,
            lambda node: boot_id(node) != identity.boot_id,
            "its new boot",
            "a stop and a start, on other hardware if EC2 had any" if moves else "the reboot",
        )
        how = f" It was rebooted in place, for {refused}." if refused else ""
        return done.model_copy(update={"explanation": f"{done.explanation}{how}"})

    @activity.defn(name=ActivityName.RESET_DEVICES, no_thread_cancel_exception=True)
    def reset_devices(self, argument: MendMachine) -> Mended:
        """Run the vendor's reset command on the node, then look at it as after a reboot.

        Raises:
            ApplicationError: any reason not to, each with its type; then nothing was done.
        """
        job, identity = argument.job, argument.target.identity
        assert job is not None
        name = job_name("reset", argument.target, identity.node_uid)
        body = node_job(job, name, identity.node, identity.devices, privileged=True)
        self._last_look(argument.target, drill=argument.drill)
        self._remember(argument, Rung.RESET_DEVICE)
        end = deadline(argument.deadline)
        while not (state := run_once(self._objects, job, body)).finished:
            if overdue(end):
                return Mended(whole=False, boot_id=identity.boot_id, explanation=f"{state.says}, for too long.")
            report_progress({"waits_for": state.says})
            pause(_LOOK_EVERY_S)
        if not state.succeeded:
            return Mended(whole=False, boot_id=identity.boot_id, explanation=f"{state.says}.")
        return self._soak(argument, lambda _: True, "", "the reset")

    def _has_begun_to_move(self, argument: MendMachine) -> bool:
        """Whether an earlier try of this incident has the instance stopped: then it is started, whoever objects now."""
        if argument.by is not RebootBy.STOP_START:
            return False
        identity, since = argument.target.identity, deadline(-_CLOCKS_DIFFER)
        mine = (argument.target.fence.incident_id, Rung.REBOOT, identity.instance_id or "")
        tried = [(t.incident, t.rung, t.instance_id) for t in self._memory.tried() if t.at >= since]
        return mine in tried and self._elsewhere.begun(identity)

    def _soak(self, argument: MendMachine, begun: Callable[[Json], bool], wanted: str, after: str) -> Mended:
        identity, end = argument.target.identity, deadline(argument.deadline)
        whole_since: datetime | None = None
        while True:
            go_on()
            node, now = self._node(argument), datetime.now(UTC)
            missing = [] if begun(node) else [f"{wanted} is not there"]
            missing += missing_on(node, identity.devices, argument.condition_types)
            missing += stale_lease(self._cluster, identity.node, now)
            whole_since = None if missing else whole_since or now
            if whole_since and now - whole_since >= argument.soak:
                return Mended(
                    whole=True,
                    boot_id=boot_id(node),
                    explanation=f"Whole for {argument.soak.total_seconds():g} s after {after}: Ready, with a fresh "
                    "Lease and all devices.",
                )
            if overdue(end):
                says = f"Not whole after {after}: {'; '.join(missing) or 'no time left'}."
                return Mended(whole=False, boot_id=boot_id(node), explanation=says)
            report_progress({"node": identity.node, "state": "; ".join(missing) or "whole, for now"})
            pause(_LOOK_EVERY_S)

    def _node(self, argument: MendMachine) -> Json:
        return claimed_node(self._cluster, argument.target)[0]

    def _remember(self, argument: MendMachine, rung: Rung) -> None:
        retry_on_conflict(lambda: self._write(argument, rung))
        identity = argument.target.identity
        self._memory.remember_tried(
            TriedRung(
                at=datetime.now(UTC),
                rung=rung,
                node=identity.node,
                instance_id=identity.instance_id or "",
                host=identity.host,
                serials=argument.serials,
                incident=argument.target.fence.incident_id,
            )
        )

    def _write(self, argument: MendMachine, rung: Rung) -> None:
        node = self._node(argument)
        now = datetime.now(UTC)
        kept = {name: at for name, at in read_tried(node, now).items() if name != rung}
        written = ",".join(f"{name}@{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in {**kept, rung: now}.items())
        self._cluster.patch_node(argument.target.identity.node, conditional(node, {TRIED_ANNOTATION: written}))
