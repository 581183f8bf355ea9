"""The Terraform module, held to what can be known of it without its provider, which no package registry has.

Parsed by a parser of HCL; arguments, blocks and attributes by the provider's own schema (``aws_provider.json``), each
reference by what it names, and what is made by deploy/aws. That AWS takes a plan of it is proven by nobody here: the
same things made by ``aws`` commands are looked at in ``test_aws_commands.py``.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2
import pytest

ROOT = Path(__file__).parents[2]
MODULE, AWS = ROOT / "deploy/terraform", ROOT / "deploy/aws"
SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("aws_provider.json").read_text())
META = {"for_each", "depends_on"}
"""Arguments that Terraform itself takes of every resource."""
Block = dict[str, Any]


MODULES: Block = {path.name: hcl2.loads(path.read_text()) for path in sorted(MODULE.glob("*.tf"))}


def blocks(kind: str) -> list[Block]:
    return [block for document in MODULES.values() for block in document.get(kind, [])]


def named(kind: str) -> dict[str, Block]:
    """Blocks of one label."""
    return {name: body for block in blocks(kind) for name, body in block.items()}


def resources() -> dict[tuple[str, str], Block]:
    """By type, with ``data.`` before those that are only read, and name."""
    return {
        (prefix + kind, name): body
        for source, prefix in (("resource", ""), ("data", "data."))
        for block in blocks(source)
        for kind, bodies in block.items()
        for name, body in bodies.items()
    }


RESOURCES = resources()


def texts(value: Any) -> Iterator[str]:
    """Every expression within."""
    if isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


EXPRESSIONS = [text for document in MODULES.values() for text in texts(document)]


def misused(body: Block, known: Block, where: str) -> Iterator[str]:
    """Arguments that the provider does not take, and those that it misses."""
    given = dict(body)
    for dynamic in given.pop("dynamic", []):
        for name, parts in dynamic.items():
            given[name] = parts["content"]
    for name, required in known.items():
        if (required is True or (isinstance(required, dict) and required["required"])) and name not in given:
            yield f"{where} lacks {name}"
    for name, value in given.items():
        if name in META:
            continue
        if name not in known:
            yield f"{where} has no {name}"
        elif isinstance(known[name], dict):
            for part in value if isinstance(value, list) else [value]:
                yield from misused(part, known[name]["block"], f"{where}.{name}")


@pytest.mark.parametrize(("kind", "name"), RESOURCES)
def test_provider_takes_each_argument_and_misses_none(kind: str, name: str) -> None:
    assert not list(misused(RESOURCES[kind, name], SCHEMA[kind]["arguments"], f"{kind}.{name}"))


def test_what_provider_does_not_take_or_misses_would_be_seen() -> None:
    alarm = dict(RESOURCES["aws_cloudwatch_metric_alarm", "nodemend"])
    del alarm["alarm_name"]
    alarm["dynamic"] = [{"metric_query": {"content": [{"expresion": "x"}]}}]
    assert list(misused(alarm, SCHEMA["aws_cloudwatch_metric_alarm"]["arguments"], "a")) == [
        "a lacks alarm_name",
        "a.metric_query lacks id",
        "a.metric_query has no expresion",
    ]


def test_each_variable_is_declared_said_what_it_is_for_and_used() -> None:
    declared = named("variable")
    assert {name for text in EXPRESSIONS for name in re.findall(r"\bvar\.(\w+)", text)} == declared.keys()
    assert all(body["description"] and body["type"] for body in declared.values())


def test_each_local_value_is_there_and_used() -> None:
    there = {name for block in blocks("locals") for name in block}
    assert {name for text in EXPRESSIONS for name in re.findall(r"\blocal\.(\w+)", text)} == there


def test_each_reference_leads_to_a_resource_and_to_an_attribute_that_it_has() -> None:
    found = []
    for text in EXPRESSIONS:
        for data, kind, name, instance, attribute in re.findall(
            r"(?:\b(data)\.)?\b(aws_\w+)\.(\w+)(\[[^]]*\])?(?:\.(\w+))?", text
        ):
            kind = f"data.{kind}" if data else kind
            assert (kind, name) in RESOURCES, text
            # One of several has to be named; a whole one, in depends_on or a `for`, has no attribute.
            several = "for_each" in RESOURCES[kind, name]
            assert not attribute or bool(instance) is several, text
            assert not attribute or attribute in SCHEMA[kind]["attributes"], text
            found.append(kind)
    assert {"aws_iam_role", "aws_sqs_queue", "aws_sns_topic", "data.aws_iam_policy_document"} <= set(found)


def test_each_role_that_is_given_a_policy_is_one_that_is_made() -> None:
    roles = {name for block in blocks("locals") for name in block.get("policies", {})}
    assert {name for text in EXPRESSIONS for name in re.findall(r'component\["([\w-]+)"\]', text)} <= roles


def test_module_makes_what_deploy_aws_says_and_nothing_of_its_own() -> None:
    text = "".join(path.read_text() for path in MODULE.glob("*.tf"))
    named_files = set(re.findall(r"\$\{path\.module\}/\.\./aws/([\w./-]+\.json)", text))
    named_files |= {f"iam/{name}" for name in re.findall(r"\$\{local\.iam\}/([\w-]+\.json)", text)}
    # Queries are asked by people.
    assert named_files == {str(path.relative_to(AWS)) for path in AWS.rglob("*.json")} - {"queries.json"}
    for placeholder, folder in re.findall(r'replace\(file\("([^"]+\.json)"\), "(\w+)"', text):
        path = AWS / placeholder.replace("${local.iam}", "iam").replace("${path.module}/../aws/", "")
        assert folder in path.read_text(), path
    for body in (body for (kind, _), body in RESOURCES.items() if kind.endswith(("_policy", "_alarm"))):
        assert not re.search(r'"(Action|Statement|Expression)"', json.dumps(body)), "words of its own"


def test_every_word_of_an_alarm_reaches_cloudwatch() -> None:
    alarm = json.dumps(RESOURCES["aws_cloudwatch_metric_alarm", "nodemend"])
    used = set(re.findall(r"each\.value\.(\w+)", alarm)) | {"AlarmName"}
    assert used == {key for one in json.loads((AWS / "alarms.json").read_text()) for key in one}
    queries = [query for one in json.loads((AWS / "alarms.json").read_text()) for query in one.get("Metrics", [])]
    assert set(re.findall(r"metric_query\.value\.(\w+)", alarm)) == {key for query in queries for key in query}


@pytest.mark.skipif(not shutil.which("terraform"), reason="Terraform is not there")
def test_files_are_as_terraform_writes_them() -> None:
    done = subprocess.run(
        ["terraform", f"-chdir={MODULE}", "fmt", "-check", "-diff"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
