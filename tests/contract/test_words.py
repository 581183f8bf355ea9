"""People read "1 incident", never "1 incidents": what is counted goes through ``contract.words.counted``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contract.words import counted

ROOT: Final = Path(__file__).parents[2]
LAYERS: Final = ("activities", "cli", "contract", "deploy", "detector", "worker", "workflows")
_PLURAL: Final = re.compile(r"^ (?:more |other |of (?:its|the) )?(?!is\b|was\b|has\b|does\b|says\b)[a-z]{2,}[^s ]s\b")
_GUARDED: Final = {
    ("cli/judging/decisions.py", "said of more than one"),
    ("cli/demo_proof.py", "the demo's own nodes"),
    ("deploy/rights/__main__.py", "hundreds of calls"),
    ("workflows/budget/correlation.py", "a common cause is of several nodes"),
}
"""Where the number is more than one, and why."""


def test_a_number_agrees_with_its_word() -> None:
    assert counted(1, "incident") == "1 incident"
    assert counted(0, "incident") == "0 incidents"
    assert counted(2, "entry", "entries") == "2 entries"


def test_no_sentence_has_a_plural_behind_a_number_that_may_be_one() -> None:
    guarded = {file for file, _ in _GUARDED}
    found = {f"{file}:{line}: {text}" for file, line, text in _uncounted() if file not in guarded}
    assert not found, "use contract.words.counted, or say in _GUARDED why the number is more than one"


def _uncounted() -> Iterator[tuple[str, int, str]]:
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    for part, after in zip(node.values, node.values[1:], strict=False):
                        if _is_number(part) and isinstance(after, ast.Constant) and _PLURAL.match(str(after.value)):
                            yield str(path.relative_to(ROOT)), node.lineno, ast.unparse(node)


def _is_number(part: ast.expr) -> bool:
    """As far as it shows: a length, a sum, a difference, or something whose name says that it is a count."""
    if not isinstance(part, ast.FormattedValue):
        return False
    value = part.value
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in {"len", "sum"}
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    return isinstance(value, ast.BinOp) or name.endswith(("_total", "count", "number", "left", "others"))
