"""Reads a policy as people write it, and says which line is wrong: pydantic knows fields, YAML knows lines."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import yaml
from pydantic import ValidationError

from contract.policy import Policy

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SHOWN_MAX: Final = 60


def judged(text: str | bytes) -> tuple[Policy | None, list[tuple[int, str]]]:
    """The policy of a text, or None and each wrong line with what is wrong there."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        says = [getattr(error, part, None) for part in ("context", "problem")]
        return None, [(mark.line + 1 if mark else 1, " ".join((" ".join(filter(None, says)) or str(error)).split()))]
    if root is None:
        # As a file is that is being written anew, or whose template failed: it would take every group's leave to act.
        return None, [(1, "the document is empty; {} is the policy of defaults, which touches nothing")]
    # YAML keeps the last of two: whoever reads the first would be wrong about what is allowed.
    wrong = list(_doubled(root))
    policy = None
    try:
        policy = Policy.model_validate({} if document is None else document)
    except ValidationError as error:
        for problem in error.errors():
            field = ".".join(str(part) for part in problem["loc"])
            wrong.append((_line(root, problem["loc"]), f"{field or 'the document'}: {problem['msg']}{_given(problem)}"))
    return (None if wrong else policy), sorted(wrong)


def _given(problem: "ErrorDetails") -> str:
    """The value that is wrong, where it is one and is short enough to be read."""
    value = problem["input"]
    plain = isinstance(value, str | int | float) and problem["type"] != "missing"
    return f" (is {value!r})" if plain and len(repr(value)) <= _SHOWN_MAX else ""


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
