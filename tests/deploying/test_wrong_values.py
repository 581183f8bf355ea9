"""Values that the chart refuses, and in which words. Helm is real; there is no cluster."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.deploying.rendering import BASIC, DEFAULTS, Json, changed, containers, rendered, template
from tests.deploying.test_values_schema import SCHEMA

# Helm is built by `nodemend local build`, as the control plane is.
pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("detector.delivery", "carrier-pigeon", "/detector/delivery"),
        ("worker.replicas", 0, "/worker/replicas"),
        ("worker.terminationGracePeriodSeconds", 30, "/worker/terminationGracePeriodSeconds"),
        ("detector.rules", {"ours.txt": ""}, "'ours.txt' not allowed"),
        ("wroker", {}, "'wroker' not allowed"),
        ("aws.podIdentity", True, "'podIdentity' not allowed"),
        ("cluster", 5, "/cluster"),
        ("worker.replicas", "2", "/worker/replicas"),
        ("temporal.apiKey.key", "api key", "/temporal/apiKey/key"),
        ("detector.instanceTypes", "trn1.32xlarge", "/detector/instanceTypes"),
        ("detector.maxUnavailable", 0, "/detector/maxUnavailable"),
        ("detector.maxUnavailable", "3", "/detector/maxUnavailable"),
        ("detector.maxUnavailable", "110%", "/detector/maxUnavailable"),
        ("worker.tolerations", [{"kye": "pool"}], "'kye' not allowed"),
        ("worker.extraEnv", [{"name": "A", "value": 5}], "/worker/extraEnv/0/value"),
        ("worker.resources", {"limits": {"memory": "1 GB"}}, "/worker/resources/limits/memory"),
        ("cloudwatch.enabled", "yes", "/cloudwatch/enabled"),
        ("policy.defualt", {"mode": "act"}, "'defualt' not allowed"),
        ("policy.default.mode", "atc", "/policy/default/mode"),
        ("policy.default.max_concurrent", "many", "/policy/default/max_concurrent"),
        ("policy.default.deadlines", {"settle": "30s"}, "/policy/default/deadlines/settle"),
        ("policy.groups", {"trn1-a": {"mode": True}}, "/policy/groups/trn1-a/mode"),
        ("policy.budget", {"disruptions": {"per_hour": 0}}, "/policy/budget/disruptions/per_hour"),
    ],
)
def test_wrong_value_is_named(path: str, value: Any, says: str) -> None:
    done = template(changed(BASIC, path, value))
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cluster": ""}, "cluster is not set"),
        ({"temporal.address": ""}, "temporal.address is not set"),
        ({"aws.region": ""}, "aws.region is not set"),
        ({"worker.enabled": False, "watchCluster.enabled": False, "detector.enabled": False}, "Nothing is enabled"),
        ({"temporal.apiKey.secret": "a", "temporal.apiKey.externalSecret.enabled": True}, "choose one"),
        ({"temporal.apiKey.secret": "a", "temporal.tls.secret": "b"}, "two ways to prove who calls"),
        ({"temporal.tls.ca": True}, "ca.crt"),
        ({"temporal.apiKey.externalSecret.enabled": True}, "needs store.name and remoteKey"),
        ({"existingPolicy": "mine", "policy.default.mode": "act"}, "both given"),
        ({"detector.kmsg.deviceResource": "a/kmsg", "detector.selfTestSeconds": 60}, "read-only"),
        ({"pager.enabled": True}, "nobody would be paged"),
        ({"pager.acknowledgePort": 8086}, "pager.enabled is false"),
        ({"detector.instanceTypes": [], "detector.nodeLabels": []}, "set detector.everyNode=true"),
        ({"payloads.key": "2026-12"}, "names no Secret"),
        ({"telemetry.otlpMetrics": True}, "names none"),
        ({"worker.record.webhook.secret": "nodemend-record"}, "names nobody who takes them"),
        ({"cloudwatch.enabled": True, "worker.enabled": False}, "worker.enabled is false"),
    ],
)
def test_contradiction_is_refused_with_what_to_do(changes: Json, says: str) -> None:
    values = BASIC
    for path, value in changes.items():
        values = changed(values, path, value)
    done = template(values)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        ("temporal.address", "http://temporal:7233", "host:port"),
        ("temporal.address", "temporal", "host:port"),
        ("temporal.address", "temporal:99999", "host:port"),
        ("temporal.address", "fd00::1:7233", "in brackets"),
        ("temporal.address", "[fd00::1]", "host:port"),
        ("aws.region", "us-west-2a", "not a zone"),
        ("aws.roles.worker", "nodemend-worker", "ARN"),
        ("aws.roles.watchCluster", "arn:aws:iam::123456789012:user/nodemend", "ARN"),
        ("image.registry", "https://registry.example.com", "without a scheme"),
        ("worker.recordsS3", "fleet-records", "s3://bucket/prefix"),
        ("worker.record.webhook.url", "reports.example.com", "with its scheme"),
        ("watchCluster.ec2QueueUrl", "arn:aws:sqs:us-west-2:123456789012:health", "not its ARN"),
        ("telemetry.otlpEndpoint", "otel-collector:4317", "http://"),
        ("alerts.runbookUrl", "docs", "https://"),
        ("pager.uiUrl", "temporal.example.com", "with its scheme"),
    ],
)
def test_wrong_form_is_told_with_field_value_and_remedy(path: str, value: str, remedy: str) -> None:
    done = template(changed(BASIC, path, value))
    assert done.returncode != 0
    assert f'{path} is "{value}". Give ' in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize("path", ["telemetry.otlpEndpoint", "worker.record.webhook.url"])
def test_url_without_its_brackets_is_refused_by_name_where_a_network_policy_asks_for_its_port(path: str) -> None:
    done = template(changed(changed(BASIC, "networkPolicy.enabled", True), path, "http://fd00::2:4318"))
    assert done.returncode != 0
    assert f'{path} is "http://fd00::2:4318". Give ' in done.stderr
    assert "an IPv6 host in brackets" in done.stderr


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://[fd00::2]:4318/v1", 4318),
        ("https://[fd00::2]", 443),
        ("http://[fd00::2]/v1:9", 80),
        ("https://otel.example.com:8443", 8443),
    ],
)
def test_network_policy_opens_the_port_of_a_url_of_every_family(url: str, port: int) -> None:
    values = changed(changed(BASIC, "networkPolicy.enabled", True), "telemetry.otlpEndpoint", url)
    (worker,) = [
        o for o in rendered(values) if (o["kind"], o["metadata"]["name"]) == ("NetworkPolicy", "nodemend-worker")
    ]
    assert [{"port": port, "protocol": "TCP"}] in [rule["ports"] for rule in worker["spec"]["egress"]]


@pytest.mark.parametrize("address", ["[fd00::1]:7233", "10.0.0.7:7233", "temporal-frontend.temporal:7233"])
def test_address_of_every_family_is_taken(address: str) -> None:
    values = changed(changed(BASIC, "temporal.address", address), "networkPolicy.enabled", True)
    (worker,) = [o for o in rendered(values) if (o["kind"], o["metadata"]["name"]) == ("Deployment", "nodemend-worker")]
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert {"name": "TEMPORAL_ADDRESS", "value": address} in container["env"]
    ports = [rule["ports"] for o in rendered(values) if o["kind"] == "NetworkPolicy" for rule in o["spec"]["egress"]]
    assert [{"port": 7233, "protocol": "TCP"}] in ports


@pytest.mark.parametrize("label", ["mine=true", "a/b/c", "", "-gpu", "GPU.example.com/x"])
def test_label_that_no_node_can_have_is_refused(label: str) -> None:
    done = template(changed(BASIC, "detector.nodeLabels", ["nvidia.com/gpu.present", label]))
    assert f'detector.nodeLabels has "{label}", which is no label\'s key' in done.stderr


def test_types_that_do_not_exist_yet_come_by_label() -> None:
    values = changed(changed(BASIC, "detector.instanceTypes", []), "detector.nodeLabels", ["future.io/accelerator"])
    (daemon,) = [o for o in rendered(values) if o["kind"] == "DaemonSet"]
    affinity = daemon["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "future.io/accelerator", "operator": "Exists"} in term["matchExpressions"]


def test_number_of_nodes_that_are_updated_at_once_is_a_number() -> None:
    """As a string the API server takes percentages alone."""
    (daemon,) = [o for o in rendered(changed(BASIC, "detector.maxUnavailable", 3)) if o["kind"] == "DaemonSet"]
    assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 3}


THEIRS = ("policy", "resources", "labels")
"""Parts whose keys are the user's own."""


def paths(values: Json, within: str = "") -> Iterator[tuple[str, Any]]:
    """Every section and value that values.yaml has."""
    for name, value in values.items():
        yield within + name, value
        if isinstance(value, dict) and name not in THEIRS:
            yield from paths(value, f"{within}{name}.")


def removed(path: str) -> Json:
    """What Helm makes of a key whose value is null."""
    values = changed(DEFAULTS, path, None)
    place = values
    *folders, name = path.split(".")
    for folder in folders:
        place = place[folder]
    del place[name]
    return values


def refusal(values: Json) -> str:
    return " ".join(error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(values))


MAY_BE_LEFT_EMPTY = {path: value for path, value in paths(DEFAULTS) if not refusal(removed(path))}
"""Those that the templates have to bear as null."""


@pytest.mark.parametrize("path", [path for path, _ in paths(DEFAULTS) if path not in MAY_BE_LEFT_EMPTY])
def test_section_that_is_commented_out_is_named(path: str) -> None:
    assert f"'{path.rpartition('.')[2]}' is a required property" in refusal(removed(path))


def test_helm_says_it_too() -> None:
    assert "missing property 'temporal'" in template({**BASIC, "temporal": None}).stderr


EVERYTHING: Json = {
    **BASIC,
    "detector": {"everyNode": True},
    "pager": {"enabled": True, "secret": "pager"},
    **{part: {"enabled": True} for part in ("serviceMonitor", "alerts", "dashboards", "cloudwatch")},
}


def test_what_may_be_empty_may_be_left_empty() -> None:
    left, emptied = EVERYTHING, EVERYTHING
    given = dict(paths(EVERYTHING))
    for path, value in MAY_BE_LEFT_EMPTY.items():
        if path not in given and not isinstance(value, dict):
            left, emptied = changed(left, path, None), changed(emptied, path, type(value)())
    assert rendered(left) == rendered(emptied)


def test_settings_that_are_left_empty_are_those_of_the_program() -> None:
    values = EVERYTHING
    for path, value in MAY_BE_LEFT_EMPTY.items():
        if isinstance(value, dict) and path != "policy":
            values = changed(values, path, None)
    assert set(containers(rendered(values))) == {"detector", "watch-cluster", "worker", "pager"}


NAMED: Json = {
    "temporal.apiKey.secret": "x123",
    "temporal.apiKey.key": "x123",
    "payloads": {"keysSecret": "x123", "key": "x123"},
    "image.tag": "x123",
    "existingPolicy": "x123",
    "worker.recordsClaim": "x123",
    "worker.record.webhook": {"url": "https://reports.example.com", "secret": "x123", "key": "x123"},
    "pager.secret": "x123",
    "detector.delivery": "temporal",
    "detector.priorityClassName": "x123",
    "detector.podAnnotations": {"x123": "x123"},
    "cluster": "x123",
}
CERTIFICATE: Json = {
    "temporal.apiKey.secret": "",
    "temporal.tls": {"secret": "x123", "ca": True, "serverName": "x123"},
}

EXTERNAL: Json = {
    "temporal.apiKey.secret": "",
    "temporal.apiKey.externalSecret": {
        "enabled": True,
        "store": {"name": "x123"},
        "remoteKey": "x123",
        "property": "x123",
    },
}


@pytest.mark.parametrize("name", ["123", "true", "null", "0x1f", "2026-12-03"])
@pytest.mark.parametrize("proof", [{}, CERTIFICATE, EXTERNAL], ids=["key", "certificate", "external"])
def test_name_that_looks_like_something_else_stays_a_name(name: str, proof: Json) -> None:
    values = EVERYTHING
    for path, value in {**NAMED, **proof}.items():
        values = changed(values, path, value)
    looks_so = json.loads(json.dumps(values).replace("x123", name))
    assert json.dumps(rendered(looks_so)) == json.dumps(rendered(values)).replace("x123", name)
