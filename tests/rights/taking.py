"""Takes grants away, one at a time, on one running stack, and plays the test that is named for each.

A plugin of pytest: each test is played once with all rights, for one that fails anyway misses nothing, and then once
for each grant that is named for it. The grant is missed where the test fails, or where the API server refused what it
allows: every session of the tests looks its audit log through for refusals at its end (``tests.recording``).
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol
from kubernetes import client

from deploy.components import NAMESPACE, Component
from deploy.local.scene import wait_for
from deploy.local.stack import Stack
from deploy.rights.calls import read_calls
from tests.rights.rbac import Grant

_LOOK_EVERY_S: Final = 1.0
_AFTER_REFUSAL_S: Final = 10.0
"""What was refused is missed: the test may fail by itself for so long, and is stopped then."""
_AT_MOST_S: Final = 120.0


@dataclass(eq=False)
class Taking:
    """Plays tests without grants. Its results are read when pytest is through."""

    wanted: Mapping[str, Sequence[Grant]]
    """By test."""
    results: dict[Grant, str] = field(default_factory=dict)
    """By grant that was missed: in which way."""
    unmissed: dict[Grant, str] = field(default_factory=dict)
    _stack: Stack | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Know the stack as soon as there is one."""
        made = yield
        if fixturedef.argname == "local_stack":
            self._stack = made
        return made

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self) -> bool:
        """The clock of pytest-timeout is the alarm that is used here."""
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Play a test with all rights, then without each grant."""
        wanted = self.wanted.get(item.nodeid, ())
        if failed := self._fails(item):
            self.unmissed |= dict.fromkeys(wanted, f"{item.nodeid} fails with all rights: {failed}")
        else:
            for grant in wanted:
                self._play(item, grant)
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def _play(self, item: pytest.Item, grant: Grant) -> None:
        assert self._stack is not None
        log = self._stack.kubernetes.audit_log
        with taken(self._stack, grant), _bounded(log, grant) as refusals:
            failed = self._fails(item)
        if failed or refusals():
            how = " and ".join(["the test fails"] * bool(failed) + ["the call is refused"] * bool(refusals()))
            self.results[grant] = f"{item.nodeid}: {how}"
        else:
            self.unmissed[grant] = f"{item.nodeid} passes without it"
        told = self.results.get(grant) or f"NOT MISSED, {self.unmissed[grant]}"
        print(f"\n{grant}: {told}", flush=True)

    @staticmethod
    def _fails(item: pytest.Item) -> str:
        """Where and how it fails; empty where it passes. Its module is not left: what several tests share stays."""
        reports = runtestprotocol(item, nextitem=item.parent, log=False)  # type: ignore[arg-type]
        return next((f"{it.when}: {it.longreprtext[-300:]}" for it in reports if it.failed), "")


@contextmanager
def taken(stack: Stack, grant: Grant) -> Iterator[None]:
    """The cluster without a grant; as it was again afterwards."""
    with stack.kubernetes.connected() as api:
        rbac: Any = client.RbacAuthorizationV1Api(api)
        reviews: Any = client.AuthorizationV1Api(api)
        if grant.place:
            read, replace = rbac.read_namespaced_role, rbac.replace_namespaced_role
            where: tuple[str, ...] = (grant.component, grant.place)
        else:
            read, replace, where = rbac.read_cluster_role, rbac.replace_cluster_role, (grant.component,)
        before = read(*where).rules

        def allowed() -> bool:
            resource, _, subresource = grant.resource.partition("/")
            attributes = {
                "verb": grant.verb,
                "group": grant.group,
                "resource": resource,
                "subresource": subresource,
                "namespace": grant.place or "somewhere",
                "name": grant.name,
            }
            user = f"system:serviceaccount:{NAMESPACE}:{Component(grant.component)}"
            review = reviews.create_subject_access_review({"spec": {"user": user, "resourceAttributes": attributes}})
            return bool(review.status.allowed)

        def become(rules: Sequence[Any], *, allows: bool) -> None:
            replace(*where, {**api.sanitize_for_serialization(read(*where)), "rules": rules})
            wait_for(lambda: allowed() is allows, f"{grant} to be {'given' if allows else 'taken'}")

        without = [rule for rule in (_without(rule, grant) for rule in api.sanitize_for_serialization(before)) if rule]
        try:
            become(without, allows=False)
            yield
        finally:
            become(api.sanitize_for_serialization(before), allows=True)


def _without(rule: dict[str, Any], grant: Grant) -> dict[str, Any] | None:
    """A rule of a role without the grant; None where nothing is left of it. A rule is about one resource here."""
    about = (rule["apiGroups"][0], rule["resources"][0], rule.get("resourceNames", [""])[0])
    if about != (grant.group, grant.resource, grant.name):
        return rule
    verbs = [verb for verb in rule["verbs"] if verb != grant.verb]
    return {**rule, "verbs": verbs} if verbs else None


@contextmanager
def _bounded(log: Path, grant: Grant) -> Iterator[Any]:
    """Stops the test that runs in here a moment after a refusal, or when it takes too long."""
    began, left = log.stat().st_size, [_AT_MOST_S]

    def refusals() -> int:
        with log.open("rb") as lines:
            lines.seek(began)
            calls = read_calls(line.decode() for line in lines)
        return sum(not seen.allowed and grant.allows(seen.call) for seen in calls)

    def look(_number: int, _frame: FrameType | None) -> None:
        left[0] -= _LOOK_EVERY_S
        if left[0] > _AFTER_REFUSAL_S and refusals():
            left[0] = _AFTER_REFUSAL_S
        if left[0] <= 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
            pytest.fail("stopped: what it needs is refused, or it takes too long")

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY_S, _LOOK_EVERY_S)
    try:
        yield refusals
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
