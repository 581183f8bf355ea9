"""What a pattern must contain, so that watch runs it only on lines that have it; and patterns that must not run at all.

Most kernel lines match no rule. Looking for a few fixed texts costs a tenth of running every pattern, and can be
done on many records at once. Used when the catalogue is compiled, never in watch.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_parser: Any = importlib.import_module("re._parser")
sre: Any = importlib.import_module("re._constants")
"""How the standard library itself reads patterns; not public, hence here alone, and tested with every rule."""

_SHORTEST: Final = 3
_ENOUGH: Final = 12
"""A longer text than this tells no more."""
_MOST: Final = 24
"""With more alternatives than this, running the pattern is as cheap."""

Node = tuple[Any, Any]


def required_literals(pattern: str) -> tuple[str, ...]:
    """Texts of which every match contains at least one; empty when there is nothing that must be there."""
    tree = _parser.parse(pattern)
    if tree.state.flags & re.IGNORECASE:
        return ()
    found = _required(list(tree))
    return tuple(sorted(found)) if found else ()


def why_unsafe(pattern: str) -> str:
    """Why a pattern could run for ever on a hostile line; empty when it cannot."""
    return _why_unsafe(list(_parser.parse(pattern)), repeated=False)


def _required(nodes: Sequence[Node]) -> frozenset[str] | None:
    """The best of what the parts of a sequence require: all of them must be there, so any one of them will do."""
    candidates: list[frozenset[str]] = []
    run = ""
    for node in _flat(nodes):
        operation, argument = node
        if operation is sre.LITERAL and _is_plain(chr(argument)):
            run += chr(argument)
            continue
        candidates += _alone(run)
        run = ""
        inner = _inner(operation, argument)
        if inner is not None:
            candidates.append(inner)
    candidates += _alone(run)
    return max(candidates, key=_worth, default=None)


def _flat(nodes: Iterable[Node]) -> Iterable[Node]:
    """The sequence with plain groups opened: ``a(?P<x>b)c`` is ``abc``."""
    for operation, argument in nodes:
        if operation is sre.SUBPATTERN and not argument[1] & re.IGNORECASE:
            yield from _flat(argument[3])
        else:
            yield operation, argument


def _inner(operation: Any, argument: Any) -> frozenset[str] | None:
    if operation is sre.BRANCH:
        branches = [_required(list(branch)) for branch in argument[1]]
        if all(branches):
            union = frozenset().union(*(branch for branch in branches if branch))
            return union if len(union) <= _MOST else None
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and argument[0] >= 1:
        return _required(list(argument[2]))
    return None


def _alone(run: str) -> list[frozenset[str]]:
    return [frozenset({run})] if len(run) >= _SHORTEST else []


def _is_plain(letter: str) -> bool:
    """Whether the kernel writes the letter as it is: others are escaped (Documentation/ABI/testing/dev-kmsg)."""
    return " " <= letter <= "~" and letter != "\\"


def _worth(candidate: frozenset[str]) -> tuple[int, int]:
    return min(min(len(text) for text in candidate), _ENOUGH), -len(candidate)


def _why_unsafe(nodes: Iterable[Node], *, repeated: bool) -> str:
    for operation, argument in nodes:
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            endless = argument[1] is sre.MAXREPEAT
            if endless and repeated:
                return "repeats a repetition without end, which takes for ever on some lines"
            why = _why_unsafe(argument[2], repeated=repeated or endless)
        elif operation is sre.SUBPATTERN:
            why = _why_unsafe(argument[3], repeated=repeated)
        elif operation is sre.BRANCH:
            why = next(filter(None, (_why_unsafe(branch, repeated=repeated) for branch in argument[1])), "")
        elif operation in (sre.ASSERT, sre.ASSERT_NOT):
            why = _why_unsafe(argument[1], repeated=repeated)
        elif operation in (sre.GROUPREF, sre.GROUPREF_EXISTS):
            return "refers back to a group, which watch does not support"
        else:
            why = ""
        if why:
            return why
    return ""


def sample(pattern: str) -> str:
    """A short plain line that a pattern matches, as a start for a real one.

    What may be empty is there once where it can: two blanks side by side would be one when a rule looks at them.

    Raises:
        ValueError: none was found.
    """
    text = _sample(list(_parser.parse(pattern)))
    if not re.search(pattern, text):
        raise ValueError("no line that it matches could be made")
    return text


def _sample(nodes: Iterable[Node]) -> str:
    return "".join(_sample_of(operation, argument) for operation, argument in nodes)


def _sample_of(operation: Any, argument: Any) -> str:
    if operation is sre.LITERAL:
        return chr(argument)
    if operation is sre.SUBPATTERN:
        return _sample(argument[3])
    if operation is sre.BRANCH:
        return _sample(argument[1][0])
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most = int(argument[0]), int(argument[1])
        return _sample(argument[2]) * max(least, min(1, most))
    if operation is sre.IN:
        return _letter_of(*argument[0])
    if operation in (sre.ANY, sre.NOT_LITERAL):
        return "a"
    return ""


def _letter_of(kind: Any, value: Any) -> str:
    if kind is sre.CATEGORY:
        return "1" if value is sre.CATEGORY_DIGIT else " " if value is sre.CATEGORY_SPACE else "a"
    if kind is sre.LITERAL:
        return chr(value)
    return chr(value[0]) if kind is sre.RANGE else "a"
