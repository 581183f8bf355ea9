"""The manifests speak of the same names as the code. Without a cluster."""

import re
from typing import Any

import pytest
import yaml

from contract import names
from deploy.components import ADMISSION, Component
from detector.catalogue import BUILT_IN, load_rules
from detector.conditions import LOG_HEALTH


def policies() -> dict[str, Any]:
    documents = [d for path in sorted(ADMISSION.glob("*.yaml")) for d in yaml.safe_load_all(path.read_text()) if d]
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == "ValidatingAdmissionPolicy"}


def listed(policy: str, variable: str) -> list[str]:
    """The list that a variable of a policy is."""
    (found,) = [v["expression"] for v in policies()[policy]["spec"]["variables"] if v["name"] == variable]
    value: list[str] = yaml.safe_load(found)
    return value


def test_condition_types_are_the_catalogues_and_the_detectors_own() -> None:
    types = {rule.condition_type for rule in load_rules([BUILT_IN])} | {LOG_HEALTH}
    assert listed("nodemend-detector-node", "ownConditions") == sorted(types)


def test_annotations_labels_and_taints_are_those_of_the_contract() -> None:
    proofs = [names.FINDING_DIGESTS_ANNOTATION, names.FINDINGS_ANNOTATION]
    assert listed("nodemend-detector-node", "ownAnnotations") == proofs
    proof = yaml.safe_dump(policies()["nodemend-proof"]["spec"], width=999)
    assert all(f"'{key}'" in proof.replace("''", "'") for key in [*proofs, names.CLUSTER_FINDING_DIGESTS_ANNOTATION])
    assert listed("nodemend-watch-cluster-node", "ownAnnotation") == names.CLUSTER_FINDING_DIGESTS_ANNOTATION
    assert listed("nodemend-worker-node", "ownTaints") == [names.QUARANTINE_TAINT, names.STARTUP_TAINT]
    markers = [names.SCALE_DOWN_DISABLED_ANNOTATION, names.DO_NOT_DISRUPT_ANNOTATION]
    assert listed("nodemend-worker-node", "foreignMarkers") == markers
    assert listed("nodemend-worker-node", "foreignLabels") == [names.NO_LOAD_BALANCER_LABEL]


@pytest.mark.parametrize("component", Component)
def test_policies_are_about_service_accounts_that_exist(component: Component) -> None:
    texts = {name: yaml.safe_dump(policy["spec"]["matchConditions"], width=999) for name, policy in policies().items()}
    about = {name for name, text in texts.items() if component.user in re.split(r"'+|\s", text)}
    assert f"{component}-node" in about


@pytest.mark.parametrize("policy", policies().values(), ids=policies())
def test_every_refusal_is_a_sentence_and_nothing_passes_when_a_policy_fails(policy: dict[str, Any]) -> None:
    assert policy["spec"]["failurePolicy"] == "Fail"
    for validation in policy["spec"]["validations"]:
        assert re.match(r"[A-Zw].*\.$", validation["message"].strip(), re.DOTALL)
        assert validation["reason"] == "Forbidden"


def test_every_policy_is_bound_and_denies() -> None:
    bindings = {
        d["spec"]["policyName"]: d["spec"]["validationActions"]
        for path in ADMISSION.glob("*.yaml")
        for d in yaml.safe_load_all(path.read_text())
        if d and d["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    assert bindings == {name: ["Deny"] for name in policies()}
