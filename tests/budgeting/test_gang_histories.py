"""Long random histories of gangs that share groups: no limit is passed, and no two of them wait for each other.

The gangs are the real ones of ``DisruptGang``; what it and FleetBudget do with a request is played.
"""

from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from contract.gang import GangMember, GangRequest, GangStage
from contract.identity import Fence, Target
from tests.budgeting.world import NOW, decide, group, world
from tests.runbook.world import identity
from workflows.budget.book import Book
from workflows.gang_state import Gang

GROUPS = ("g", "h")
NODES = tuple(f"{name}{number}" for name in GROUPS for number in range(6))


class Gangs(RuleBasedStateMachine):
    """See above."""

    @initialize(concurrent=st.integers(1, 3))
    def build(self, concurrent: int) -> None:
        self.now: datetime = NOW
        self.concurrent = concurrent
        self.gangs = [
            Gang(GangRequest(cluster="c", job=f"ml/Job/{name}", deadline=timedelta(0)), "run") for name in "abc"
        ]
        self.book = Book()

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 2), node=st.sampled_from(NODES))
    def node_fails(self, number: int, node: str) -> None:
        if any(node in other.nodes for other in self.gangs):
            return
        identified = identity(node=node, node_uid=f"uid-{node}", group=node[0])
        target = Target(identity=identified, fence=Fence(incident_id=f"remediate-{node}", run_id="run"))
        gang = self.gangs[number]
        gang.join(GangMember(target=target, rule="hbm"))
        self.ask(gang)

    @rule(number=st.integers(0, 2), data=st.data())
    @precondition(lambda self: any(gang.stage is GangStage.RELEASED for gang in self.gangs))
    def node_is_drained(self, number: int, data: st.DataObject) -> None:
        gang = self.gangs[number]
        if gang.stage is GangStage.RELEASED and gang.undrained:
            gang.leave(data.draw(st.sampled_from(gang.undrained)).key, drained=True)

    @rule(number=st.integers(0, 2), data=st.data())
    def node_leaves(self, number: int, data: st.DataObject) -> None:
        """Repaired, or released by a human while it was queued."""
        gang = self.gangs[number]
        if gang.members:
            self.leave(gang, data.draw(st.sampled_from(sorted(gang.members))))

    @rule()
    def budget_decides(self) -> None:
        self.now += timedelta(seconds=1)
        count = world(
            *(group(6, [n for n in NODES if n[0] == name], name=name, concurrent=self.concurrent) for name in GROUPS)
        )
        book = self.book
        permits = list(book.held.values())
        for grant in decide(count, list(book.queue.values()), permits, now=self.now).granted:
            asked = grant.request.node if not grant.request.out else None
            before = book.held.get(grant.request.token)
            if asked and not (before and asked in before.request.nodes):
                out = {
                    node
                    for token, permit in book.held.items()
                    for node in permit.request.nodes
                    if token != grant.request.token and node[0] == asked[0]
                }
                assert len(out) < self.concurrent
            book.hold(grant.request, self.now)
        for gang in (gang for gang in self.gangs if gang.members):
            # Each is told, and asks once more: the answer counts.
            self.ask(gang)
            if gang.stage is GangStage.RELEASED:
                assert set(self.book.held[gang.permit(None).token].request.nodes) == gang.nodes

    def teardown(self) -> None:
        """Once nothing else fails, each gang that waits is released: none holds what another waits for."""
        if not hasattr(self, "gangs"):
            return
        for _ in range(20):
            for gang in self.gangs:
                for member in gang.undrained if gang.stage is GangStage.RELEASED else ():
                    gang.leave(member.key, drained=True)
                for key in sorted(gang.drained):
                    self.leave(gang, key)
            self.budget_decides()
        assert not [gang.request.job for gang in self.gangs if gang.members]

    # --- what DisruptGang and FleetBudget do --------------------------------------------------------------------------

    def ask(self, gang: Gang) -> None:
        request = gang.permit(None)
        self.book.ask(request, self.now)
        if gang.undrained and self.book.has_leave(request):
            gang.stage = GangStage.RELEASED

    def leave(self, gang: Gang, key: str) -> None:
        token = gang.permit(None).token
        gang.leave(key)
        if gang.members:
            self.ask(gang)
            return
        self.book.forget(token)


Gangs.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestGangs = Gangs.TestCase
