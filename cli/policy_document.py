"""Reads a policy as people write it, and says which line is wrong: pydantic knows fields, YAML knows lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from cli.errors import CommandError
from contract.names import ExitCode
from contract.policy import Policy


def read_policy(file: Path | None) -> Policy:
    """The policy of a file; the default one without a file.

    Raises:
        CommandError: it cannot be read, or is not valid; the message names each wrong line.
    """
    if file is None:
        return Policy()
    policy, wrong = judged(read_text(file))
    if policy is None:
        raise CommandError(
            "\n".join(f"{file}:{line}: {what}" for line, what in wrong),
            "Mend these lines; a worker would go on with the policy before. Fields: docs/policy.md.",
            ExitCode.DATA,
        )
    return policy


def read_text(file: Path) -> str:
    """A policy file as it is.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}.", "Name a policy file.", ExitCode.NO_INPUT) from error


def judged(text: str) -> tuple[Policy | None, list[tuple[int, str]]]:
    """The policy of a text, or None and each wrong line with what is wrong there."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        return None, [(mark.line + 1 if mark else 1, str(getattr(error, "problem", "") or error))]
    # YAML keeps the last of two: whoever reads the first would be wrong about what is allowed.
    wrong = list(_doubled(root))
    policy = None
    try:
        policy = Policy.model_validate({} if document is None else document)
    except ValidationError as error:
        for problem in error.errors():
            field = ".".join(str(part) for part in problem["loc"])
            wrong.append((_line(root, problem["loc"]), f"{field or 'the document'}: {problem['msg']}"))
    return (None if wrong else policy), sorted(wrong)


def _line(node: yaml.Node | None, path: Sequence[str | int]) -> int:
    """The line of a field, or of the nearest thing around it that is there; a field is named where its key stands."""
    line = node.start_mark.line + 1 if node else 1
    for part in path:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, found = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = node.value[part]
            line = found.start_mark.line + 1
        if found is None:
            break
        node = found
    return line


def _doubled(node: yaml.Node | None, around: tuple[yaml.Node, ...] = ()) -> Iterator[tuple[int, str]]:
    if node is None or isinstance(node, yaml.ScalarNode):
        return
    if any(node is outer for outer in around):
        yield node.start_mark.line + 1, "an alias (*) stands within what it names, so this would never end"
        return
    inside = (*around, node)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield key.start_mark.line + 1, f"{key.value}: stands here a second time"
            seen.add(key.value)
            yield from _doubled(value, inside)
    elif isinstance(node, yaml.SequenceNode):
        for entry in node.value:
            yield from _doubled(entry, inside)
