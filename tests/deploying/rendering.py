"""The chart as Helm renders it."""

import copy
import subprocess
from pathlib import Path
from typing import Any

import yaml

from deploy.local.build import locate_helm

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "nodemend"
DEFAULTS: Json = yaml.safe_load((CHART / "values.yaml").read_text())
DERIVED = {
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
"""Kinds that the chart takes from deploy/rbac and deploy/admission."""
BASIC: Json = {
    "cluster": "llama",
    "temporal": {"address": "temporal-frontend.temporal:7233"},
    "aws": {"region": "us-west-2"},
}
CASES: dict[str, Json] = {
    "default": BASIC,
    "eks-irsa": {
        **BASIC,
        "aws": {
            "region": "us-west-2",
            "roles": {
                "worker": "arn:aws:iam::123456789012:role/nodemend-worker",
                "watchCluster": "arn:aws:iam::123456789012:role/nodemend-watch-cluster",
            },
        },
        "image": {"registry": "123456789012.dkr.ecr.us-west-2.amazonaws.com", "tag": "0.1.0"},
        "policy": {"default": {"mode": "shadow"}, "groups": {"trn1-a": {"mode": "act"}}},
        "worker": {
            "recordsClaim": "nodemend-records",
            "recordsS3": "s3://fleet-records/llama",
            "record": {"webhook": {"url": "https://reports.example.com/nodemend", "secret": "nodemend-record"}},
            "nodeSelector": {"pool": "system"},
        },
        "watchCluster": {"ec2QueueUrl": "https://sqs.us-west-2.amazonaws.com/123456789012/nodemend-llama-health"},
        "serviceMonitor": {"enabled": True},
        "cloudwatch": {"enabled": True},
        "alerts": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "runbookUrl": "https://git.example.com/nodemend",
        },
        "dashboards": {"enabled": True},
    },
    "temporal-cloud": {
        **BASIC,
        "temporal": {
            "address": "fleet.a1b2c.tmprl.cloud:7233",
            "namespace": "fleet.a1b2c",
            "apiKey": {
                "externalSecret": {"enabled": True, "store": {"name": "aws"}, "remoteKey": "nodemend/temporal"},
            },
        },
        "existingPolicy": "fleet-policy",
        "telemetry": {"otlpEndpoint": "http://otel-collector.monitoring:4318", "otlpMetrics": True},
    },
    "mtls-on-nodes": {
        **BASIC,
        "temporal": {"address": "temporal.internal:7233", "tls": {"secret": "temporal-client", "ca": True}},
        "detector": {
            "delivery": "temporal",
            "kmsg": {"deviceResource": "squat.ai/kmsg"},
            "rules": {"ours.yaml": "rules: []\n"},
        },
        "payloads": {"keysSecret": "nodemend-payload-keys", "key": "2026-12"},
        "pager": {
            "enabled": True,
            "secret": "nodemend-pager",
            "uiUrl": "https://temporal.example.com",
            "acknowledgePort": 8086,
        },
    },
    "detector-only": {
        "cluster": "llama",
        "watchCluster": {"enabled": False},
        "worker": {"enabled": False},
        "detector": {"everyNode": True, "selfTestSeconds": 60},
    },
}


def changed(values: Json, path: str, value: Any) -> Json:
    """The values with one more, at a path of dots."""
    result = copy.deepcopy(values)
    *folders, name = path.split(".")
    place = result
    for folder in folders:
        place = place.setdefault(folder, {})
    place[name] = value
    return result


def helm(*arguments: str, values: Json | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Helm, with values on its standard input."""
    given = ["--values", "-"] if values is not None else []
    return subprocess.run(
        [str(locate_helm()), *arguments, *given],
        input=yaml.safe_dump(values) if values is not None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def template(values: Json, namespace: str = "nodemend") -> "subprocess.CompletedProcess[str]":
    """Render without a cluster."""
    return helm("template", "nodemend", str(CHART), "--namespace", namespace, values=values)


def rendered(values: Json, namespace: str = "nodemend") -> list[Json]:
    """The objects that are rendered, in a steady order."""
    done = template(values, namespace)
    assert done.returncode == 0, done.stderr
    found = [document for document in yaml.safe_load_all(done.stdout) if document]
    return sorted(found, key=lambda d: (d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]))


def containers(objects: list[Json]) -> dict[str, Json]:
    """The one container of each workload, by its name."""
    workloads = [o for o in objects if o["kind"] in ("Deployment", "DaemonSet")]
    return {c["name"]: c for o in workloads for c in o["spec"]["template"]["spec"]["containers"]}
