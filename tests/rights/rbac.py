"""What the kept manifests allow, by RBAC's own rules (Kubernetes, Using RBAC Authorization): a union of grants."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.rights.calls import CLUSTER_SCOPE, Call


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one resource in one place: the smallest thing that could be taken away."""

    component: str
    place: str
    """A namespace, or "" for all and for what has none."""
    group: str
    resource: str
    verb: str
    name: str = ""

    def allows(self, call: Call) -> bool:
        """Whether this grant alone allows a call."""
        return (
            (self.component, self.group, self.resource, self.verb)
            == (call.component, call.group, call.resource, call.verb)
            and self.place in (CLUSTER_SCOPE, call.namespace)
            and self.name in ("", call.name)
        )

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.place}" if self.place else ""
        return f"{self.component}: {self.verb} {resource}{f' {self.name}' if self.name else ''}{where}"


def grants(folder: Path) -> list[Grant]:
    """Every grant of the manifests in a folder."""
    documents = [d for path in sorted(folder.glob("*.yaml")) for d in yaml.safe_load_all(path.read_text()) if d]
    roles = {_key(d): d["rules"] for d in documents if d["kind"] in ("Role", "ClusterRole")}
    found: list[Grant] = []
    for document in documents:
        if document["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            place = document["metadata"].get("namespace", CLUSTER_SCOPE)
            rules = roles[document["roleRef"]["kind"], place, document["roleRef"]["name"]]
            found += [g for subject in document["subjects"] for g in _grants(subject["name"], place, rules)]
    return sorted(found)


def allowing(among: Iterable[Grant], call: Call) -> list[Grant]:
    """The grants that allow a call."""
    return [grant for grant in among if grant.allows(call)]


def _grants(component: str, place: str, rules: list[dict[str, Any]]) -> Iterator[Grant]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Grant(component, place, group, resource, verb, name)


def _key(document: dict[str, Any]) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", CLUSTER_SCOPE), metadata["name"]
