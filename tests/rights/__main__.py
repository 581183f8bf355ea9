"""``python -m tests.rights``: take each grant away in earnest, and see the test fail that is named for it.

Each takes a stack of its own, half a minute or so; the tests show the same by reckoning (test_rights.py).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from deploy.components import RBAC
from deploy.rights.__main__ import recorded
from tests.recording import RBAC_VARIABLE
from tests.rights.rbac import Grant, allowing, grants


def main() -> int:
    """Go through the grants (those whose words are given, else all); 1 when one was not missed."""
    every, unmissed = grants(RBAC), 0
    for grant in [grant for grant in every if all(word in str(grant) for word in sys.argv[1:])]:
        others = [other for other in every if other != grant]
        tests = [test for call, test in recorded().items() if not allowing(others, call)]
        tests = tests or [test for call, test in recorded().items() if call.resource == grant.resource]
        with tempfile.TemporaryDirectory() as folder:
            write_without(grant, Path(folder))
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", tests[0]],
                env={**os.environ, RBAC_VARIABLE: folder},
                capture_output=True,
                text=True,
                check=False,
            )
        missed = done.returncode == 1
        unmissed += not missed
        print(f"{'missed by' if missed else 'NOT MISSED by'} {tests[0]}: {grant}", flush=True)
    return min(unmissed, 1)


def write_without(grant: Grant, folder: Path) -> None:
    """Write the manifests without one grant."""
    for path in RBAC.glob("*.yaml"):
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        for document in documents:
            if document["kind"] in ("Role", "ClusterRole") and document["metadata"]["name"] == grant.component:
                for rule in document["rules"]:
                    here = (
                        document["metadata"].get("namespace", ""),
                        rule["apiGroups"][0],
                        rule["resources"][0],
                        rule.get("resourceNames", [""])[0],
                    )
                    if here == (grant.place, grant.group, grant.resource, grant.name):
                        rule["verbs"] = [verb for verb in rule["verbs"] if verb != grant.verb]
                document["rules"] = [rule for rule in document["rules"] if rule["verbs"]]
        (folder / path.name).write_text(yaml.safe_dump_all(documents))


if __name__ == "__main__":
    sys.exit(main())
