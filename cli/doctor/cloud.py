"""What AWS lets the worker do: its role by IAM's own simulation, else this very caller by dry runs. Changes nothing.

A look with the rights of whoever runs the doctor says nothing of the worker's: the role is found as the pods get it
(IRSA's annotation, or EKS Pod Identity) and IAM is asked about it.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from activities.auto_scaling import tags_of
from activities.aws_calls import CALL
from activities.cluster import Cluster
from activities.errors import ActError
from cli.doctor.findings import Finding, Level, of_iam
from contract.policy import GroupPolicy, Mode
from contract.replacement import RebootMode
from contract.words import counted
from deploy.aws import WORKER_POLICY
from deploy.components import Component
from worker.clients import aws_session

IRSA: Final = "eks.amazonaws.com/role-arn"
_MAY: Final = "allowed"
_GROUPS_MAX: Final = 20
"""Groups that are asked about: IAM's simulation is slow, and groups differ by their tags alone."""


class Group(NamedTuple):
    """A group and what the policy wants to do to it."""

    document: dict[str, Any]
    instance_id: str
    policy: GroupPolicy


def changes(policy: GroupPolicy) -> list[str]:
    """What the worker has to be allowed to do to a group with this policy. Pure."""
    wanted = ["autoscaling:SetInstanceHealth", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    if policy.replacement.spare_first:
        wanted += ["autoscaling:EnterStandby", "autoscaling:ExitStandby"]
    if policy.replacement.reboot is not RebootMode.NEVER:
        wanted.append("ec2:RebootInstances")
    if policy.replacement.report_to_ec2:
        wanted.append("ec2:ReportInstanceStatus")
    return wanted


def looks(iam_policy: dict[str, Any]) -> list[str]:
    """What the worker has to be allowed to look at. Pure."""
    (statement,) = [one for one in iam_policy["Statement"] if one["Sid"] == "Look"]
    return list(statement["Action"])


def rights(cluster: Cluster, namespace: str, groups: Sequence[Group]) -> Iterator[Finding]:
    """What AWS refuses to the worker."""
    session: Any = aws_session()
    role, why_not = _role(cluster, session, namespace)
    if role:
        try:
            yield from _simulated(session.client("iam", config=CALL), role, groups)
        except (ClientError, BotoCoreError) as error:
            yield _unknown(
                f"IAM does not say what {role} may ({_code(error)})",
                "allow iam:SimulatePrincipalPolicy to whoever runs the doctor",
            )
        else:
            return
    else:
        yield _unknown(*why_not)
    yield from _dry_runs(session, groups)


def _unknown(says: str, mend: str) -> Finding:
    return Finding(
        "IAM",
        Level.NOTE,
        says,
        "whether the worker may replace a machine shows with the first one; what follows holds for this caller alone",
        mend,
    )


def _role(cluster: Cluster, session: Any, namespace: str) -> tuple[str, tuple[str, str]]:
    """The role that the worker's pods get; where there is none to be found, why, and what to do."""
    account = f"{namespace}/{Component.WORKER}"
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{Component.WORKER}"
    try:
        found = cluster.read(path, "get serviceaccounts") or {}
    except ActError as error:
        return "", (f"the worker's role cannot be found from here: {error.what}", "allow it to whoever runs the doctor")
    if role := (found.get("metadata", {}).get("annotations") or {}).get(IRSA):
        return str(role), ("", "")
    name = os.environ.get("NODEMEND_CLUSTER", "")
    if not name:
        return "", (
            f"the worker's role cannot be found from here: {account} has none by IRSA, and NODEMEND_CLUSTER is not set",
            "set NODEMEND_CLUSTER to the EKS cluster's name, by which Pod Identity is asked",
        )
    try:
        eks = session.client("eks", config=CALL)
        place = {"clusterName": name, "namespace": namespace}
        bound = eks.list_pod_identity_associations(**place, serviceAccount=str(Component.WORKER))["associations"]
        if bound:
            one = eks.describe_pod_identity_association(clusterName=name, associationId=bound[0]["associationId"])
            return str(one["association"]["roleArn"]), ("", "")
    except (ClientError, BotoCoreError) as error:
        return "", (
            f"the worker's role cannot be found from here: EKS does not say who {account} is ({_code(error)})",
            "allow eks:ListPodIdentityAssociations and eks:DescribePodIdentityAssociation to whoever runs the doctor",
        )
    return "", (
        f"{account} has no role, neither by IRSA nor by Pod Identity: it gets the node's, if any",
        "bind a role to it (docs/aws.md; chart: aws.roles.worker)",
    )


def _simulated(iam: Any, role: str, groups: Sequence[Group]) -> Iterator[Finding]:
    actions = looks(json.loads(WORKER_POLICY.read_text(encoding="utf-8")))
    yield of_iam(role, _refused(iam, role, actions, "*", []), len(actions))
    for group in groups[:_GROUPS_MAX]:
        arn, name = group.document["AutoScalingGroupARN"], group.document["AutoScalingGroupName"]
        region, account = arn.split(":")[3:5]
        context = [
            {"ContextKeyName": f"{owner}:ResourceTag/{key}", "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in tags_of(group.document).items()
            for owner in ("aws", "autoscaling")
        ]
        wanted = changes(group.policy)
        refused: list[str] = []
        for service, resource in (
            ("autoscaling", arn),
            ("ec2", f"{arn.split(':')[0]}:{arn.split(':')[1]}:ec2:{region}:{account}:instance/{group.instance_id}"),
        ):
            chosen = [action for action in wanted if action.startswith(f"{service}:")]
            refused += _refused(iam, role, chosen, resource, context) if chosen else []
        yield of_iam(role, refused, len(wanted), name, acts=group.policy.mode is Mode.ACT)


def _refused(iam: Any, role: str, actions: Sequence[str], resource: str, context: list[dict[str, Any]]) -> list[str]:
    pages = iam.get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn=role, ActionNames=list(actions), ResourceArns=[resource], ContextEntries=context
    )
    return [
        str(result["EvalActionName"])
        for page in pages
        for result in page["EvaluationResults"]
        if result["EvalDecision"] != _MAY
    ]


def _dry_runs(session: Any, groups: Sequence[Group]) -> Iterator[Finding]:
    """EC2 says beforehand whether it would; Auto Scaling does not."""
    rebooting = [group for group in groups if group.policy.replacement.reboot is not RebootMode.NEVER]
    if not rebooting:
        return
    refused = []
    for group in rebooting[:_GROUPS_MAX]:
        try:
            session.client("ec2", config=CALL).reboot_instances(InstanceIds=[group.instance_id], DryRun=True)
        except (ClientError, BotoCoreError) as error:
            if _code(error) != "DryRunOperation":
                refused.append(f"{group.document['AutoScalingGroupName']} ({_code(error)})")
    if refused:
        yield Finding(
            "IAM",
            Level.NOTE,
            f"this caller may not reboot machines of {', '.join(refused)}",
            "where the worker has the same rights, a reboot asks a human",
            "allow ec2:RebootInstances (deploy/aws/iam/worker.json)",
        )
    else:
        yield Finding(
            "IAM", Level.OK, f"this caller may reboot machines of {counted(len(rebooting), 'group')} (dry run)"
        )


def _code(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else str(error)
