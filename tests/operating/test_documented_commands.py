"""Every `nodemend …`, `helm …`, `kubectl …` and `aws …` that a document shows is one that there is, options and all."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer

from cli.lazily import Listing
from cli.main import app
from deploy.local.build import kubernetes_version
from tests.deploying.aws_command import run
from tests.deploying.rendering import helm
from tests.operating import kubectl_options

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [
    path
    for folder in ("activities", "cli", "contract", "deploy", "detector", "worker", "workflows")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
"""What the programs tell people to run stands there between backticks, as in pages."""
NOTES = ROOT / "deploy" / "helm" / "nodemend" / "templates" / "NOTES.txt"
"""What Helm says after an install: all of it is as a block."""


def shown(program: str, page: Path) -> Iterator[list[str]]:
    """The words of each command of a program, in blocks and within sentences."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = [text] if page == NOTES else re.findall(r"```[^\n]*\n(.*?)```", text, re.DOTALL)
    within = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line for block in blocks for line in block.splitlines()] + [" ".join(span.split()) for span in within]
    for line in lines:
        for part in re.split(r"\||&&|;|\$\(", re.sub(r"\s#.*", "", line)):
            if re.match(rf"\s*(\.venv/bin/)?{program} [a-z-]", part):
                # Brackets stand for what may be left out.
                yield shlex.split(re.sub(r"[\[\]()\"']", "", part))[1:]


def mistake(words: list[str]) -> str:
    """What the command line would not know; empty where it knows it all."""
    command: Any = typer.main.get_command(app)
    # Any: typer brings a click of its own.
    context = command.make_context("nodemend", ["--help"], resilient_parsing=True)
    while words and hasattr(command, "resolve_command"):
        if words[0].startswith("-"):
            break
        if isinstance(command, Listing) and words[0] not in command.commands:
            words = ["list", *words]
        name, found, rest = command.resolve_command(context, words)
        if found is None:
            return f"no command {words[0]}"
        command, words = found, rest
        context = command.make_context(name, ["--help"], parent=context, resilient_parsing=True)
    known = {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    wrong = [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]
    return f"no option {', '.join(wrong)}" if wrong else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_command_line_knows_what_a_page_shows(page: Path) -> None:
    assert {" ".join(words): why for words in shown("nodemend", page) if (why := mistake(words))} == {}


def test_command_line_knows_what_programs_tell_people_to_run() -> None:
    lines = {" ".join(words): words for source in SOURCES for words in shown("nodemend", source)}
    assert {"doctor", "status"} <= {words[0] for words in lines.values()}
    assert {line: why for line, words in lines.items() if (why := mistake(words))} == {}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("doctor --polciy x", "no option --polciy"),
        ("policy show --efective", "no option --efective"),
        ("audit FOLDER --since 1d --node a", ""),
    ],
)
def test_what_the_command_line_does_not_know_would_be_seen(words: str, why: str) -> None:
    assert mistake(words.split()) == why


def test_helm_has_the_commands_and_options_that_pages_show() -> None:
    """With ``--help`` at the end Helm reads the whole line and does nothing."""
    lines = {" ".join(words): words for page in PAGES for words in shown("helm", page)}
    assert {"install", "uninstall", "upgrade"} <= {words[0] for words in lines.values()}
    assert {line: why for line, words in lines.items() if (why := helm(*words, "--help").stderr)} == {}


@pytest.mark.parametrize("words", ["instal nodemend", "install nodemend chart --vlaues x"])
def test_what_helm_does_not_know_would_be_seen(words: str) -> None:
    assert "unknown" in helm(*words.split(), "--help").stderr


def test_kubectl_has_the_commands_and_options_that_pages_show() -> None:
    version, options = kubectl_options.kept()
    assert version == kubernetes_version(), f"These are of another kubectl. {kubectl_options.REMEDY}"
    lines = {" ".join(words): words for page in (*PAGES, *SOURCES, NOTES) for words in shown("kubectl", page)}
    assert {"create", "debug", "get"} <= {words[0] for words in lines.values()}
    assert {line: why for line, words in lines.items() if (why := kubectl_options.mistake(words, options))} == {}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("gte nodes", "no command gte"),
        ("create sceret generic x", "no command create sceret"),
        ("get nodes --selecter app", "no option --selecter"),
        ("get nodes -oz", ""),
        ("get nodes -zo", "no option -zo"),
        # What goes before the command is every command's.
        ("-A get pods", "no option -A"),
        ("-n nodemend get pods -A", ""),
        # A value is neither a command nor an option, and what runs in a container is not kubectl's.
        ("create -f - ", ""),
        ("debug node/n -it --image=busybox -- sh --no-such-option", ""),
    ],
)
def test_what_kubectl_does_not_know_would_be_seen(words: str, why: str) -> None:
    assert kubectl_options.mistake(words.split(), kubectl_options.kept()[1]) == why


@pytest.mark.parametrize("page", ["install-eks", "migration"])
def test_aws_has_the_operations_and_options_that_a_page_shows(page: str, tmp_path: Path) -> None:
    """Those of docs/aws.md are run as they stand (tests/deploying/test_aws_commands.py)."""
    called: list[dict[str, Any]] = []

    def take(given: dict[str, Any]) -> dict[str, Any]:
        called.append(given)
        return {}

    with mock.patch.dict(os.environ, AWS_DEFAULT_REGION="us-west-2"):
        for words in shown("aws", ROOT / "docs" / f"{page}.md"):
            run(words, tmp_path, {"UpdateNodegroupConfig": take})
    assert [one["nodeRepairConfig"]["enabled"] for one in called] == [False]
