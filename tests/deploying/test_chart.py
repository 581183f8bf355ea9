"""What the chart renders. Helm is real; there is no cluster.

After a change of the chart that is meant: ``NODEMEND_GOLDEN=write .venv/bin/pytest tests/deploying/test_chart.py``,
and read the difference.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.payload_keys import FOLDER_SETTING, NAME_SETTING
from deploy.components import ADMISSION, NAMESPACE, RBAC
from deploy.monitoring.alerts import rules
from detector.cluster.settings import WatchSettings
from detector.settings import DetectorSettings
from tests.deploying.rendering import (
    BASIC,
    CASES,
    CHART,
    DERIVED,
    ROOT,
    Json,
    changed,
    containers,
    helm,
    rendered,
    template,
)
from worker.paging.main import PagerSettings
from worker.settings import WorkerSettings

# Helm is built by `nodemend local build`, as the control plane is.
pytestmark = pytest.mark.stack

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.parametrize("case", CASES)
def test_chart_is_clean(case: str) -> None:
    done = helm("lint", "--strict", str(CHART), values=CASES[case])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_is_as_it_was_read(case: str) -> None:
    own = [o for o in rendered(CASES[case]) if o["kind"] not in DERIVED]
    text = yaml.safe_dump_all(own, sort_keys=False, width=120)
    path = GOLDEN / f"{case}.yaml"
    if os.environ.get("NODEMEND_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), "see the docstring of this file"


@pytest.mark.parametrize("case", CASES)
def test_servers_are_on_every_address_of_their_pods_which_may_have_ipv6_alone(case: str) -> None:
    templates = [o["spec"]["template"]["spec"] for o in rendered(CASES[case]) if "template" in o.get("spec", {})]
    variables = [one for spec in templates for container in spec["containers"] for one in container.get("env", [])]
    served = {one["name"]: one["value"] for one in variables if one["name"].endswith("_ADDRESS")}
    served.pop("TEMPORAL_ADDRESS", None)
    assert served
    assert {address[0] for address in served.values()} == {":"}


def test_values_of_the_installation_page_are_taken() -> None:
    page = (ROOT / "docs" / "install-eks.md").read_text(encoding="utf-8")
    written = re.search(r'```yaml title="values.yaml"\n(.*?)```', page, re.DOTALL)
    policy = re.search(r"```yaml\n(policy:.*?)```", page, re.DOTALL)
    assert written
    assert policy
    kinds = {o["kind"] for o in rendered(yaml.safe_load(written[1]) | yaml.safe_load(policy[1]))}
    # What its lines switch on is there: CloudWatch's metrics come from the pager.
    assert {"DaemonSet", "ServiceMonitor", "PrometheusRule"} <= kinds
    assert "nodemend-pager" in {o["metadata"]["name"] for o in rendered(yaml.safe_load(written[1]))}


def derived_sources() -> dict[tuple[str, str, str], Json]:
    paths = sorted([*RBAC.glob("*.yaml"), *ADMISSION.glob("*.yaml")])
    found = [d for path in paths for d in yaml.safe_load_all(path.read_text()) if d]
    return {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]): d for d in found}


def test_rights_are_the_derived_ones_and_no_others() -> None:
    shown = {}
    for manifest in rendered(BASIC):
        if manifest["kind"] in DERIVED:
            del manifest["metadata"]["labels"]
            metadata = manifest["metadata"]
            shown[(manifest["kind"], metadata.get("namespace", ""), metadata["name"])] = manifest
    assert shown == derived_sources()


def test_packaged_chart_holds_what_the_links_lead_to(tmp_path: Path) -> None:
    assert helm("package", str(CHART), "--destination", str(tmp_path)).returncode == 0
    (package,) = tmp_path.glob("*.tgz")
    done = helm("template", "nodemend", str(package), "--namespace", NAMESPACE, values=BASIC)
    assert done.stdout == template(BASIC).stdout


def test_in_another_namespace_rights_and_admission_policies_are_about_the_accounts_there() -> None:
    objects = [o for o in rendered(BASIC, "fleet") if o["kind"] in DERIVED]
    subjects = [s for o in objects for s in o.get("subjects", [])]
    assert subjects
    assert {s["namespace"] for s in subjects} == {"fleet"}
    text = yaml.safe_dump(objects, width=10_000)
    assert f"system:serviceaccount:{NAMESPACE}:" not in text
    assert text.count("system:serviceaccount:fleet:nodemend-") >= 5
    assert not [o for o in objects if o["metadata"].get("namespace") == NAMESPACE]


def test_roles_of_aws_are_annotations_of_the_accounts() -> None:
    accounts = {o["metadata"]["name"]: o for o in rendered(CASES["eks-irsa"]) if o["kind"] == "ServiceAccount"}
    roles = {name: o["metadata"].get("annotations", {}) for name, o in accounts.items()}
    role = "eks.amazonaws.com/role-arn"
    assert roles["nodemend-worker"] == {role: "arn:aws:iam::123456789012:role/nodemend-worker"}
    assert roles["nodemend-watch-cluster"] == {role: "arn:aws:iam::123456789012:role/nodemend-watch-cluster"}
    assert roles["nodemend-detector"] == {}


def test_alert_rules_are_the_ones_that_prometheus_checked_with_where_to_read_on() -> None:
    (rule,) = [o for o in rendered(CASES["eks-irsa"]) if o["kind"] == "PrometheusRule"]
    shown = yaml.safe_dump(rule["spec"]).replace("https://git.example.com/nodemend/", "")
    assert yaml.safe_load(shown) == rules()


@pytest.mark.parametrize("case", CASES)
def test_no_setting_is_misspelled(case: str) -> None:
    settings: dict[str, Any] = {"detector": DetectorSettings, "watch-cluster": WatchSettings, "worker": WorkerSettings}
    settings["pager"] = PagerSettings
    shared = {FOLDER_SETTING, NAME_SETTING}
    for name, container in containers(rendered(CASES[case])).items():
        known = {f"NODEMEND_{field.upper()}" for field in settings[name].model_fields}
        given = {e["name"] for e in container["env"] if e["name"].startswith("NODEMEND_")}
        assert given <= known | shared, name


def test_detector_without_privileges_has_one_capability_and_the_seccomp_profile() -> None:
    context = containers(rendered(CASES["mtls-on-nodes"]))["detector"]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["SYSLOG"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not context["allowPrivilegeEscalation"]
    assert "privileged" not in context


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [("http://collector.monitoring:4318", 4318), ("https://otlp.example.com/ingest", 443), ("http://collector", 80)],
)
def test_worker_may_reach_the_collector_that_it_is_told(endpoint: str, port: int) -> None:
    objects = rendered(changed(BASIC, "telemetry.otlpEndpoint", endpoint))
    (policy,) = [o for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == "nodemend-worker"]
    assert [{"port": port, "protocol": "TCP"}] in [rule["ports"] for rule in policy["spec"]["egress"]]
    assert {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": endpoint} in containers(objects)["worker"]["env"]


@pytest.mark.parametrize(("url", "port"), [("https://reports.example.com/x", 443), ("http://sink.tools:8080", 8080)])
def test_closing_reports_reach_the_webhook_that_is_named_signed_with_the_key_of_a_secret(url: str, port: int) -> None:
    values = changed(BASIC, "worker.record.webhook", {"url": url, "secret": "mine", "key": "hmac"})
    objects = rendered(values)
    environment = containers(objects)["worker"]["env"]
    assert {"name": "NODEMEND_RECORD_WEBHOOK", "value": url} in environment
    key = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "hmac"}}}
    assert {"name": "NODEMEND_WEBHOOK_SECRET", **key} in environment
    (policy,) = [o for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == "nodemend-worker"]
    assert [{"port": port, "protocol": "TCP"}] in [rule["ports"] for rule in policy["spec"]["egress"]]


def test_cloudwatch_is_told_by_workers_and_by_a_pager_that_pages_nobody() -> None:
    told = containers(rendered(changed(BASIC, "cloudwatch.enabled", True)))
    for name in ("worker", "pager"):
        assert {"name": "NODEMEND_CLOUDWATCH", "value": "true"} in told[name]["env"]
        assert {"name": "AWS_REGION", "value": "us-west-2"} in told[name]["env"]
    assert "envFrom" not in told["pager"]
    assert "pager" not in containers(rendered(BASIC))


def test_nodes_hold_no_temporal_credentials_unless_asked_to() -> None:
    for case, holds in (("temporal-cloud", False), ("mtls-on-nodes", True)):
        environment = [e["name"] for e in containers(rendered(CASES[case]))["detector"]["env"]]
        assert any(name.startswith("TEMPORAL_") for name in environment) is holds


def test_memory_limits_lie_above_what_was_measured() -> None:
    figures = {f["figure"]: f["value"] for f in json.loads((ROOT / "docs/benchmarks.json").read_text())}
    measured = {
        "detector": figures["detector_rss_after_1000000_lines_mib"],
        "watch-cluster": figures["watch_cluster_rss_mib"],
        "worker": figures["worker_rss_mib"],
    }
    for name, container in containers(rendered(BASIC)).items():
        resources = container["resources"]
        assert measured[name] < mebibytes(resources["requests"]["memory"]), name
        assert 2 * measured[name] < mebibytes(resources["limits"]["memory"]), name


def mebibytes(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]
