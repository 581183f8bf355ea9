"""``python -m deploy.rights [--add] FOLDER…``: derive the manifests of ``deploy/rbac`` from recordings of the tests.

A folder holds ``audit.jsonl``, the API server's audit log, and ``tests.jsonl``, which says when each test ran. The
tests write both when ``NODEMEND_RECORD_CALLS`` names the folder; ``make rights`` does all of it. With ``--add`` the
recordings are of some tests alone: what they show is added to the record, and nothing is taken from it.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Final

from contract.names import ExitCode
from deploy.components import RBAC, Component
from deploy.rights.calls import Call, Test, read_calls, witnesses
from deploy.rights.derive import text

RECORD: Final = RBAC / "recorded.json"
"""Each call that was seen, with a test that makes it."""
AUDIT_LOG: Final = "audit.jsonl"
TESTS: Final = "tests.jsonl"


def main(arguments: Sequence[str]) -> int:
    """Write the record and the manifests."""
    add = "--add" in arguments
    folders = [Path(argument) for argument in arguments if argument != "--add"]
    if not folders or not all((folder / AUDIT_LOG).is_file() for folder in folders):
        print(__doc__, file=sys.stderr)
        return ExitCode.USAGE
    known = recorded() if RECORD.exists() else {}
    found = dict(known) if add else {}
    seen = 0
    for folder in folders:
        with (folder / AUDIT_LOG).open(encoding="utf-8") as lines:
            calls = read_calls(lines)
        seen += len(calls)
        # Each by itself: recordings may have run at the same time, and a call is its own recording's.
        for call, test in witnesses(calls, read_tests(folder / TESTS), known).items():
            if call not in found or test == known.get(call):
                found[call] = test
    found = dict(sorted(found.items()))
    RECORD.write_text(json.dumps([{**asdict(call), "test": test} for call, test in found.items()], indent=1) + "\n")
    for component in Component:
        (RBAC / component.file_name).write_text(text(component, found), encoding="utf-8")
    print(f"{seen} calls of {len(found)} kinds: wrote {RBAC}.", file=sys.stderr)
    return ExitCode.OK


def recorded(path: Path = RECORD) -> dict[Call, str]:
    """The calls that are kept, each with the test that makes it."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return {Call(**{key: value for key, value in entry.items() if key != "test"}): entry["test"] for entry in entries}


def read_tests(path: Path) -> list[Test]:
    """When each test ran."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Test(line["name"], datetime.fromisoformat(line["began"]), datetime.fromisoformat(line["ended"]))
        for line in lines
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
