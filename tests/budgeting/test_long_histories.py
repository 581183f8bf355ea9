"""Long random histories of a fleet: whatever happens in whatever order, no limit is passed and nobody starves.

The machine keeps a world of its own, in which grants show late, machines fail by themselves, holders die, the policy
changes and FleetBudget starts again from what it carried. It counts what is lost by itself, after every grant.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from contract.budget import Area, Pause, RepairResult
from contract.budget_policy import AreaLimits, BudgetPolicy, CorrelationGuard, FailedRepairs, Rate
from contract.permit import (
    BudgetState,
    ClusterCount,
    GroupCount,
    GroupLimits,
    HeldPermit,
    PermitKind,
    QueuedRequest,
)
from tests.budgeting.world import NOW, request
from workflows.budget.admission import Memory, admit
from workflows.budget.carried import pack, unpack

GROUPS = {"one": 1, "few": 3, "many": 12}
ZONES = ("a", "b")
FAULTS = ("hbm", "fan", "link")
RATE = Rate(per_hour=6, burst=3)


@dataclass
class Machine:
    """One node of the world."""

    name: str
    group: str
    zone: str
    works: bool = True
    closed: bool = False
    incident: int = 0


class Fleet(RuleBasedStateMachine):
    """See above."""

    @initialize(concurrent=st.integers(1, 4), share=st.sampled_from([0.1, 0.34, 1.0]))
    def build(self, concurrent: int, share: float) -> None:
        self.now = NOW
        self.limits = GroupLimits(max_concurrent=concurrent, max_disrupted_share=share, max_quarantined_share=0.5)
        self.policy = BudgetPolicy(
            cluster=AreaLimits(max_disrupted_share=0.2, max_quarantined_share=0.5),
            zone=AreaLimits(max_disrupted_share=0.3, max_quarantined_share=0.6),
            max_disrupted=3,
            disruptions=RATE,
            quarantines=Rate(per_hour=20, burst=6),
            correlation=CorrelationGuard(nodes=4),
            failed_repairs=FailedRepairs(),
        )
        machines = [
            Machine(f"{name}-{number}", name, ZONES[number % 2])
            for name, size in GROUPS.items()
            for number in range(size)
        ]
        self.fleet = {machine.name: machine for machine in machines}
        self.queue: dict[str, QueuedRequest] = {}
        self.held: dict[str, HeldPermit] = {}
        self.memory = Memory()
        self.grants: list[datetime] = []

    # --- what happens ---------------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 15), fault=st.sampled_from(FAULTS), severity=st.integers(0, 2), dead=st.booleans())
    def fails(self, number: int, fault: str, severity: int, dead: bool) -> None:
        machine = self.fleet[sorted(self.fleet)[number]]
        if self.permits_of(machine.name) or machine.closed:
            return
        machine.incident += 1
        machine.works = machine.works and not dead
        self.ask(machine, PermitKind.QUARANTINE, fault, severity)

    @rule(data=st.data())
    @precondition(lambda self: self.held)
    def grant_shows(self, data: st.DataObject) -> None:
        """The holder does what it was granted."""
        permit = data.draw(st.sampled_from(sorted(self.held.values(), key=lambda item: item.request.token)))
        machine = self.fleet[permit.request.node]
        if permit.request.kind is PermitKind.DISRUPTION:
            machine.works = False
        elif not machine.closed:
            machine.closed = True
            self.ask(machine, PermitKind.DISRUPTION, permit.request.rule, permit.request.severity)

    @rule(data=st.data(), failed=st.booleans())
    @precondition(lambda self: self.disrupted())
    def repair_ends(self, data: st.DataObject, failed: bool) -> None:
        permit = data.draw(st.sampled_from(self.disrupted()))
        self.close(permit, failed=failed)

    @rule(data=st.data())
    @precondition(lambda self: self.held or self.queue)
    def incident_is_terminated(self, data: st.DataObject) -> None:
        """Its permits come back, its node stays as it is."""
        node = data.draw(
            st.sampled_from(sorted({item.request.node for item in (*self.held.values(), *self.queue.values())}))
        )
        self.forget(node)

    @rule(number=st.integers(0, 15))
    def machine_dies(self, number: int) -> None:
        self.fleet[sorted(self.fleet)[number]].works = False

    @rule(number=st.integers(0, 15))
    def machine_comes_back(self, number: int) -> None:
        machine = self.fleet[sorted(self.fleet)[number]]
        if not self.permits_of(machine.name):
            machine.works, machine.closed = True, False

    @rule(minutes=st.integers(1, 300))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(group=st.sampled_from([None, *GROUPS]))
    def operator_pauses(self, group: str | None) -> None:
        self.memory = Memory(
            (Pause(group=group, by="ada", reason="looking", at=self.now),),
            self.memory.buckets,
            self.memory.sightings,
            self.memory.guards,
            self.memory.repairs,
        )

    @rule()
    def operator_resumes(self) -> None:
        m = self.memory
        self.memory = Memory((), m.buckets, m.sightings, m.guards, m.repairs)

    @rule(concurrent=st.integers(1, 4), share=st.sampled_from([0.1, 0.34, 1.0]))
    def policy_changes(self, concurrent: int, share: float) -> None:
        self.limits = self.limits.model_copy(update={"max_concurrent": concurrent, "max_disrupted_share": share})

    @rule()
    def budget_continues_as_new(self) -> None:
        """Pitfall 10: all that it knows goes through the message that is carried."""
        m = self.memory
        carried = BudgetState(
            cluster="c",
            queue=pack(self.queue.values()),
            held=tuple(self.held.values()),
            pauses=m.pauses,
            buckets=m.buckets,
            sightings=m.sightings,
            guards=m.guards,
            repairs=m.repairs,
        )
        state = BudgetState.model_validate_json(carried.model_dump_json())
        self.queue = {item.request.token: item for item in unpack(state.queue, state.sightings)}
        self.held = {item.request.token: item for item in state.held}
        self.memory = Memory(state.pauses, state.buckets, state.sightings, state.guards, state.repairs)

    @rule()
    def budget_decides(self) -> None:
        self.decide()

    # --- what must hold -------------------------------------------------------------------------------------------

    def decide(self) -> int:
        """One pass, checked."""
        before = {permit.request.node for permit in self.disruptions()}
        lost = self.losses()
        admission = admit(self.count(), list(self.queue.values()), list(self.held.values()), self.memory, self.now)
        asked = {item.request.token for item in self.queue.values()}
        assert {g.request.token for g in admission.granted} | {w.request.token for w in admission.waiting} == asked
        for item in admission.waiting:
            assert item.reason
            assert item.releases
            assert item.limit
            self.queue[item.request.token] = item
        for grant in admission.granted:
            asking = grant.request
            assert not any(p.group in (None, asking.group) for p in self.memory.pauses)
            del self.queue[asking.token]
            self.held[asking.token] = HeldPermit(request=asking, granted_at=self.now)
            if asking.kind is PermitKind.DISRUPTION:
                self.grants.append(self.now)
        self.memory = admission.memory
        new = {permit.request.node for permit in self.disruptions()} - before
        self.check_losses(new, lost)
        self.check_rate()
        return len(admission.granted)

    def check_losses(self, new: set[str], before: dict[str, int]) -> None:
        """What a pass takes away stays within what is allowed. What died by itself may have passed it before."""
        after = self.losses()
        shares = {**dict.fromkeys(GROUPS, self.limits.max_disrupted_share), **dict.fromkeys(ZONES, 0.3), "c": 0.2}
        for scope, share in shares.items():
            assert after[scope] <= max(before[scope], max(1, math.floor(share * len(self.members(scope)))))
        for name in {self.fleet[node].group for node in new}:
            out = {permit.request.node for permit in self.disruptions() if permit.request.group == name}
            assert len(out) <= self.limits.max_concurrent
        if new:
            assert len({permit.request.node for permit in self.disruptions()}) <= 3

    def losses(self) -> dict[str, int]:
        """Nodes out of work, or about to be, by group and zone and in all."""
        out = {permit.request.node for permit in self.disruptions()}
        return {
            scope: sum(not machine.works or machine.name in out for machine in self.members(scope))
            for scope in (*GROUPS, *ZONES, "c")
        }

    def members(self, scope: str) -> list[Machine]:
        return [machine for machine in self.fleet.values() if scope in (machine.group, machine.zone, "c")]

    def check_rate(self) -> None:
        for first, start in enumerate(self.grants):
            hours = (self.grants[-1] - start) / timedelta(hours=1)
            assert len(self.grants) - first <= RATE.burst + hours * RATE.per_hour + 1e-6

    def teardown(self) -> None:
        """Nobody starves: once the world is left in peace, everybody who waits gets his turn."""
        if not hasattr(self, "queue"):
            return
        m = self.memory
        self.memory = Memory((), m.buckets, m.sightings, m.guards, m.repairs)
        for machine in self.fleet.values():
            if not self.permits_of(machine.name):
                machine.works, machine.closed = True, False
        for _ in range(400):
            for permit in self.disrupted():
                self.close(permit, failed=False)
            for permit in list(self.held.values()):
                if permit.request.kind is PermitKind.QUARANTINE:
                    machine = self.fleet[permit.request.node]
                    waits = any(item.request.node == machine.name for item in self.queue.values())
                    if machine.closed and not waits:
                        self.forget(machine.name)
                        machine.works, machine.closed = True, False
                    elif not machine.closed:
                        machine.closed = True
                        self.ask(machine, PermitKind.DISRUPTION, permit.request.rule, permit.request.severity)
            if not self.queue:
                return
            # Machines that died meanwhile are replaced by others.
            for machine in self.fleet.values():
                machine.works = machine.works or not any(
                    item.request.node == machine.name for item in self.held.values()
                )
            # Where most of a place is dead nobody is replaced: an outage ends, or a human ends it.
            for place in (*GROUPS, *ZONES, "c"):
                dead = [machine for machine in self.members(place) if not machine.works]
                if len(dead) >= 3 and len(dead) >= 0.55 * len(self.members(place)):
                    for machine in dead:
                        machine.works = True
            self.now += timedelta(hours=1)
            self.decide()
        raise AssertionError(f"still waiting: {[(i.request.token, i.reason) for i in self.queue.values()]}")

    # --- the world ------------------------------------------------------------------------------------------------

    def ask(self, machine: Machine, kind: PermitKind, fault: str, severity: int) -> None:
        made = request(
            machine.name,
            kind,
            machine.group,
            zone=machine.zone,
            rule=fault,
            severity=severity,
            incident=f"incident-{machine.name}-{machine.incident}",
        )
        if made.token not in self.held:
            self.queue.setdefault(made.token, QueuedRequest(request=made, asked_at=self.now))

    def close(self, permit: HeldPermit, *, failed: bool) -> None:
        asked, machine = permit.request, self.fleet[permit.request.node]
        self.forget(asked.node)
        machine.works, machine.closed = True, False
        done = RepairResult(
            incident_id=asked.incident_id,
            run_id=asked.run_id,
            group=asked.group,
            fault=asked.fault,
            node=asked.node,
            replacement=asked.node,
            failed=failed,
            at=self.now,
        )
        m = self.memory
        self.memory = Memory(m.pauses, m.buckets, m.sightings, m.guards, (*m.repairs, done))

    def forget(self, node: str) -> None:
        self.queue = {token: item for token, item in self.queue.items() if item.request.node != node}
        self.held = {token: item for token, item in self.held.items() if item.request.node != node}

    def permits_of(self, node: str) -> list[str]:
        return [item.request.token for item in (*self.held.values(), *self.queue.values()) if item.request.node == node]

    def disruptions(self) -> list[HeldPermit]:
        return [item for item in self.held.values() if item.request.kind is PermitKind.DISRUPTION]

    def disrupted(self) -> list[HeldPermit]:
        """Disruptions that show."""
        shown = [item for item in self.disruptions() if not self.fleet[item.request.node].works]
        return sorted(shown, key=lambda item: item.request.token)

    def count(self) -> ClusterCount:
        everything = list(self.fleet.values())

        def names(machines: list[Machine], *, closed: bool) -> tuple[str, ...]:
            return tuple(machine.name for machine in machines if machine.works and machine.closed is closed)

        def area(name: str, machines: list[Machine]) -> Area:
            return Area(
                name=name,
                desired=len(machines),
                working=names(machines, closed=False),
                quarantined=names(machines, closed=True),
            )

        groups = {name: [machine for machine in everything if machine.group == name] for name in GROUPS}
        return ClusterCount(
            groups=tuple(
                GroupCount(
                    group=name,
                    desired=len(machines),
                    working=names(machines, closed=False),
                    quarantined=names(machines, closed=True),
                    limits=self.limits,
                )
                for name, machines in groups.items()
            ),
            counted_at=self.now,
            cluster=area("c", everything),
            zones=tuple(area(zone, [m for m in everything if m.zone == zone]) for zone in ZONES),
            policy=self.policy,
        )


Fleet.TestCase.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestFleet = Fleet.TestCase
