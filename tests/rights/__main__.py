"""``python -m tests.rights [WORD…]``: take each grant away in earnest, and see the test miss it that is named for it.

One stack serves all of them (``tests.rights.taking``); the tests show the same by reckoning (test_rights.py). Words
choose grants: those that hold any of them.
"""

import os
import sys

import pytest

from deploy.components import RBAC
from deploy.rights.__main__ import recorded
from tests.recording import RBAC_VARIABLE
from tests.rights.rbac import Grant, allowing, grants
from tests.rights.taking import Taking


def main() -> int:
    """Go through the grants; 1 when one was not missed."""
    every = grants(RBAC)
    chosen = [grant for grant in every if any(word in str(grant) for word in sys.argv[1:] or [""])]
    wanted: dict[str, list[Grant]] = {}
    for grant in chosen:
        others = [other for other in every if other != grant]
        tests = [test for call, test in recorded().items() if not allowing(others, call)]
        if tests:
            wanted.setdefault(tests[0], []).append(grant)
        else:
            print(f"{grant}: asked beside another verb by other versions of Kubernetes alone")
    # The session looks for no refusals at its end: here they are meant.
    os.environ[RBAC_VARIABLE] = str(RBAC)
    taking = Taking(wanted)
    pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", *wanted], plugins=[taking])
    for grant, why in taking.unmissed.items():
        print(f"NOT MISSED: {grant} ({why})")
    unplayed = {grant for several in wanted.values() for grant in several} - {*taking.results, *taking.unmissed}
    print(f"{len(taking.results)} of {len(chosen)} grants missed, {len(unplayed)} not played.")
    return int(bool(taking.unmissed or unplayed))


if __name__ == "__main__":
    sys.exit(main())
