"""``python -m tests.operating.kubectl_options``: write down the commands and options that the pinned kubectl has.

The kubectl of the Kubernetes that ``deploy/local/controlplane/go.mod`` pins is built in a temporary folder, and asked
for its help. What it has is kept beside this file, so that a test of what documents show needs no kubectl.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deploy.local.build import CONTROL_PLANE, kubernetes_version

FILE: Final = Path(__file__).with_suffix(".json")
REMEDY: Final = (
    "Run `python -m tests.operating.kubectl_options` (it needs Go and some minutes), then mend the lines in the "
    "documents that this test refuses."
)
_EVERYWHERE: Final = "options"
"""The command that lists what every command takes."""
_HELP: Final = ("--help", "-h")
"""What every command takes and none lists."""
_PACKAGE: Final = "k8s.io/kubernetes/cmd/kubectl"
_OPTION: Final = re.compile(r"^ {4}(?:-(\w), )?--([\w-]+)=(.*):$", re.MULTILINE)
_COMMANDS: Final = re.compile(r"^\S.*Commands.*:\n((?: {2}\S.*\n)+)", re.MULTILINE)
_COMMAND: Final = re.compile(r"^ {2}(\S+) ", re.MULTILINE)

Options = dict[str, list[str]]
"""By command (``create secret generic``), the options that are its own; with ``=`` where a value has to follow."""


def kept() -> tuple[str, Options]:
    """The version of the kubectl whose options are kept, and these."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return found["version"], {command: own.split() for command, own in found["options"].items()}


def mistake(words: list[str], options: Options) -> str:
    """What kubectl would not know of a line, which is given without ``kubectl``; empty where it knows it all."""
    command, left = "", iter(words)
    for word in left:
        if word == "--":
            # What follows is a command in a container.
            break
        if word.startswith("-"):
            known = {*_HELP, *options[_EVERYWHERE], *options.get(command, [])}
            if (waits := _waits_for_value(word, known)) is None:
                return f"no option {word}"
            if waits:
                next(left, None)
        elif not command or any(other.startswith(f"{command} ") for other in options):
            command = f"{command} {word}".strip()
            if command not in options:
                return f"no command {command}"
    return ""


def _waits_for_value(word: str, known: set[str]) -> bool | None:
    """Whether the next word is this option's value; None where there is no such option."""
    if word.startswith("--"):
        name, given, _ = word.partition("=")
        return not given if f"{name}=" in known else False if name in known else None
    letters = word[1:].partition("=")[0]
    for position, letter in enumerate(letters, start=1):
        if f"-{letter}=" in known:
            # The rest of the word is its value, else the next word.
            return position == len(word[1:])
        if f"-{letter}" not in known:
            return None
    return False


def read(program: Path) -> Options:
    """All that a kubectl says that it has."""
    found, waiting = {_EVERYWHERE: _options(_run(str(program), "options"))}, list(_commands(_run(str(program))))
    while waiting:
        command = waiting.pop()
        text = _run(str(program), *command.split(), "--help")
        found[command] = _options(text)
        waiting += [f"{command} {name}" for name in _commands(text)]
    return dict(sorted(found.items()))


def _commands(text: str) -> Iterator[str]:
    for section in _COMMANDS.findall(text):
        yield from _COMMAND.findall(section)


def _options(text: str) -> list[str]:
    found = []
    for letter, name, default in _OPTION.findall(text):
        value = "" if default in ("true", "false") else "="
        found += [f"--{name}{value}", *([f"-{letter}{value}"] if letter else [])]
    return sorted(found)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Build kubectl, and write what it has."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("go.mod", "go.sum"):
            shutil.copy(CONTROL_PLANE.module / name, folder)
        program = Path(folder) / "kubectl"
        # The control plane's own module lacks the sums of what kubectl alone needs: the copy takes them up.
        subprocess.run(
            ["go", "build", "-mod=mod", "-trimpath", "-o", str(program), _PACKAGE],
            cwd=folder,
            env={**os.environ, "GOWORK": "off"},
            check=True,
        )
        # A line for each command.
        options = {command: " ".join(own) for command, own in read(program).items()}
    found = {"version": kubernetes_version(), "options": options}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(options)} commands of kubectl {kubernetes_version()}: wrote {FILE}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
