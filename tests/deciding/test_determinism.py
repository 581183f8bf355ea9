"""Workflows are deterministic: what the sandbox would catch while they run is caught here before they do.

They run without the SDK's sandbox, which costs a quarter of an incident's CPU time in a storm. So nothing in them, nor
in what they load of ours, may read clocks, chance, files or the environment, nor keep state in a module.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workflows

ROOT = Path(workflows.__file__).parents[1]
LOADED = """
import sys
import workflows.disrupt_gang, workflows.fleet_budget, workflows.reap_orphans, workflows.remediate_node
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None) or "")
"""


def ours() -> list[Path]:
    """The modules of this repository that a process has which loaded the workflows and nothing else."""
    command = [sys.executable, "-c", LOADED]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    packages = {ROOT / name for name in ("activities", "contract", "deploy", "detector", "worker", "workflows")}
    found = {Path(name) for name in loaded if packages & set(Path(name).parents)}
    return sorted({*found, *(ROOT / "workflows").rglob("*.py")})


MODULES = ours()
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
            if not ast.unparse(statement.value).startswith("TypeVar(") and names != "__all__":
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
