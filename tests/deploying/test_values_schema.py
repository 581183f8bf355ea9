"""The chart refuses a policy that no worker would take, and takes every one that a worker takes."""

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ValidationError

from contract.policy import Policy
from deploy.values_schema import PATH, text
from tests.deploying.rendering import CASES, DEFAULTS, ROOT

SCHEMA = json.loads(PATH.read_text())
EXAMPLES = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/policy.md").read_text(), re.M | re.S)
    if isinstance(document := yaml.safe_load(block), dict)
]
WRONG: list[Any] = [
    {"default": {"mode": "atc"}},
    {"defualt": {}},
    {"default": {"max_concurrent": 0}},
    {"default": {"deadlines": {"settle": "5m"}}},
    {"default": {"maintenance": [{"days": ["someday"], "start": "22:00", "end": "23:00"}]}},
    {"groups": ["trn1"]},
    {"groups": {"trn1": {"replacement": {"answers": {"paused": "go-on"}}}}},
    {"budget": {"correlation": {"nodes": 1}}},
]


def accepted(policy: Any) -> bool:
    checker = jsonschema.Draft7Validator(SCHEMA)
    return not list(checker.iter_errors({**DEFAULTS, "policy": policy}))


def taken(policy: Any) -> bool:
    try:
        Policy.model_validate(policy)
    except ValidationError:
        return False
    return True


def test_schema_in_the_chart_is_that_of_the_model() -> None:
    assert PATH.read_text() == text(), "Write it anew: make schema"


def test_there_are_examples() -> None:
    assert [example for example in EXAMPLES if taken(example)]


@pytest.mark.parametrize("policy", [Policy().model_dump(mode="json"), *EXAMPLES, *WRONG], ids=str)
def test_chart_and_worker_agree_on_a_policy(policy: Any) -> None:
    assert accepted(policy) is taken(policy)


@pytest.mark.parametrize("case", CASES)
def test_cases_of_the_chart_have_policies_that_a_worker_takes(case: str) -> None:
    assert taken(CASES[case].get("policy", {}))
