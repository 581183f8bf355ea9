"""Workflows are deterministic: what the sandbox would catch while they run is caught here before they do.

The workflow modules are passed through the sandbox, for loading them anew costs a third of an incident's CPU time in
a storm. So nothing in them may read clocks, chance, files or the environment, nor keep state in a module.
"""

import ast
from pathlib import Path

import pytest

import workflows

MODULES = sorted(Path(workflows.__file__).parent.rglob("*.py"))
FORBIDDEN_MODULES = {
    "concurrent",
    "glob",
    "http",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}
FORBIDDEN_CALLS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "input"}


def faults(source: str) -> list[str]:
    """What in a module is not deterministic, or not shared safely between incidents."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN_CALLS:
            found.append(ast.unparse(node.func))
        elif isinstance(node, ast.Global):
            found.append(f"global {', '.join(node.names)}")
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict | ast.List | ast.Set | ast.Call):
            names = ", ".join(ast.unparse(target) for target in statement.targets)
            if not ast.unparse(statement.value).startswith("TypeVar("):
                found.append(f"{names} is a module's state: say Final")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_workflow_module_is_deterministic(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from os import environ",
        "import os.path",
        "def f():\n    return datetime.now()",
        "def f():\n    return open('x')",
        "seen = {}",
        "cache = dict()",
        "def f():\n    global x",
    ],
)
def test_the_check_can_fail(source: str) -> None:
    assert faults(source)
