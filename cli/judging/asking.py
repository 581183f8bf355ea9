"""What `nodemend plan` was asked, made whole: the line as a record, the node's facts, its pods."""

import io
import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from cli.errors import CommandError
from cli.judging.captures import Capture, Captured
from cli.judging.facts import Facts, Given, from_cluster, from_options, named_instance
from cli.judging.foresight import Foresight, foresee
from contract.names import ExitCode
from contract.policy import Policy
from detector.catalogue import BUILT_IN, CatalogueError, catalogue
from detector.rules import Catalogue, key_values


@dataclass(frozen=True)
class Asked:
    """The question."""

    given: Given
    line: str
    rules: Path | None
    pods: Path | None
    size: int
    now: datetime


def judge(asked: Asked, policy: Policy) -> Foresight:
    """The answer.

    Raises:
        CommandError: a file cannot be used, the node is not there, or the cluster cannot be asked.
    """
    rules = known_rules(asked.rules)
    capture = Capture(io.BytesIO(asked.line.encode()), asked.now)
    record = next(capture.records(), None)
    if record is None:
        why = (
            "another program than the kernel wrote the line, and the detector reads the kernel's alone"
            if capture.counts.not_kernel
            else "there is no kernel message in it"
        )
        return Foresight(node=asked.given.node, line=asked.line, says=f"Nothing would happen: {why}.")
    facts = _facts(asked, record)
    if record.at is None:
        record = record._replace(at=asked.now.timestamp())
    return foresee(record, rules, facts, policy, asked.now, asked.size)


def known_rules(folder: Path | None) -> Catalogue:
    """The built-in rules, after one's own.

    Raises:
        CommandError: they cannot be used.
    """
    try:
        return catalogue([BUILT_IN, *([folder] if folder else [])])
    except CatalogueError as error:
        raise CommandError(str(error), "Nothing of it is used until it is mended.", ExitCode.DATA) from error


def _facts(asked: Asked, record: Captured) -> Facts:
    if os.environ.get("KUBECONFIG"):
        facts = from_cluster(asked.given)
    else:
        named = named_instance(key_values(record.raw.decode("utf-8", "replace")))
        facts = from_options(asked.given, named)
    return replace(facts, pods=_pods(asked.pods)) if asked.pods else facts


def _pods(file: Path) -> tuple[dict[str, Any], ...]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        pods = document["items"] if document.get("kind", "").endswith("List") else [document]
        for pod in pods:
            # What the filter needs of each.
            _ = pod["metadata"]["name"], pod["metadata"]["namespace"], pod["spec"].keys()
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror}.",
            "Give what `kubectl get pods -o json` wrote.",
            ExitCode.NO_INPUT,
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, LookupError, TypeError, AttributeError) as error:
        raise CommandError(
            f"{file} holds no pods as Kubernetes writes them ({type(error).__name__}: {error}).",
            "Give what `kubectl get pods --all-namespaces --field-selector spec.nodeName=NODE -o json` wrote.",
            ExitCode.DATA,
        ) from error
    return tuple(pods)
