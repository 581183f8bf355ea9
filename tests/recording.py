"""When each test ran, so that what the API server saw meanwhile can be laid to it (``python -m deploy.rights``)."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from deploy.components import NAMESPACE, RBAC, Component
from deploy.rights.__main__ import AUDIT_LOG, TESTS, recorded
from deploy.rights.calls import Test, read_calls

RECORD_VARIABLE = "NODEMEND_RECORD_CALLS"
"""Names the folder for a recording. Then RBAC holds nobody back: what is new would be refused, and never be seen."""
RBAC_VARIABLE = "NODEMEND_TEST_RBAC"
"""Names a folder of other manifests for the components' rights, such as ones that lack a rule."""
FORGING = "tests/rights/"
"""Tests that do in a component's name what it never does."""

IAM = Path(__file__).parents[1] / "deploy" / "aws" / "iam"
"""What AWS is asked to allow, a policy for each component."""

ran: list[Test] = []
"""The tests of this session, in order."""


@contextmanager
def noting(name: str) -> Iterator[None]:
    """Note when a test runs."""
    if name.startswith(FORGING):
        yield
        return
    # The stack stops within the last test, and its calls are kept then: so that one is noted before it has ended.
    test = Test(name, datetime.now(UTC), datetime.max.replace(tzinfo=UTC))
    ran.append(test)
    try:
        yield
    finally:
        ran[-1] = replace(test, ended=datetime.now(UTC))


def rights_folder(temporary: Path) -> Path:
    """The manifests of what the components may call in this session."""
    if RECORD_VARIABLE not in os.environ:
        return Path(os.environ.get(RBAC_VARIABLE, RBAC))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"kind": "ServiceAccount", "name": str(component), "namespace": NAMESPACE} for component in Component]
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": str(name), "namespace": NAMESPACE}}
        for name in Component
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "recording"},
        "roleRef": role,
        "subjects": subjects,
    }
    (temporary / "recording.yaml").write_text(yaml.safe_dump_all([*accounts, binding]))
    return temporary


def keep_recording(audit_log: Path) -> None:
    """Copy the log and the tests' times to where ``NODEMEND_RECORD_CALLS`` says."""
    if RECORD_VARIABLE in os.environ:
        folder = Path(os.environ[RECORD_VARIABLE])
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(audit_log, folder / AUDIT_LOG)
        lines = [
            json.dumps({"name": test.name, "began": test.began.isoformat(), "ended": test.ended.isoformat()})
            for test in ran
        ]
        (folder / TESTS).write_text("\n".join(lines) + "\n")


def check_calls(audit_log: Path) -> None:
    """Look back on the session: what its tests had Nodemend call is what is recorded, and allowed.

    Each process of pytest has a stack of its own, and so looks back on its own tests alone.

    Raises:
        AssertionError: RBAC refused a call and a test swallowed that, a call is new, or a right is needed no more.
    """
    if RECORD_VARIABLE in os.environ or RBAC_VARIABLE in os.environ:
        return
    with audit_log.open(encoding="utf-8") as lines:
        # Without the calls that tests forge.
        calls = [seen for seen in read_calls(lines) if any(test.began <= seen.at < test.ended for test in ran)]
    known, made = recorded(), {seen.call for seen in calls}
    refused = {seen.call for seen in calls if not seen.allowed}
    assert not refused, f"A call that RBAC refuses needs a right: make rights. {refused}"
    assert made <= set(known), f"A new kind of call: make rights. {made - set(known)}"
    # What is made once for all, the memory of failed machines say, is made by whichever test comes first.
    names = {test.name for test in ran}
    unmade = {call: test for call, test in known.items() if test in names and call not in made}
    assert not unmade, f"A right that no test needs any more: make rights. {unmade}"


def allowed_actions() -> set[str]:
    """Every action that a policy for AWS allows."""
    policies = [json.loads(path.read_text(encoding="utf-8")) for path in IAM.glob("*.json")]
    return {action for policy in policies for statement in policy["Statement"] for action in statement["Action"]}


def check_aws_calls(seen: Iterable[str]) -> None:
    """The policies for AWS suffice: they allow whatever Nodemend called in this session.

    ``seen``: actions as moto counted them, without their service. Those of REST APIs (EKS, S3) have no name there.

    Raises:
        AssertionError: an action is allowed by no policy.
    """
    new = set(seen) - {action.partition(":")[2] for action in allowed_actions()} - {""}
    assert not new, f"A new call of AWS: allow it in deploy/aws/iam. {new}"
