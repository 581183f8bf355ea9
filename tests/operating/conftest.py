"""One Temporal without workers for all tests of commands that need no more."""

from collections.abc import Iterator

import pytest

from deploy.local.temporal import Temporal, running_temporal
from tests.operating.fleet import Fleet


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Temporal]:
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture
def fleet(temporal: Temporal) -> Fleet:
    return Fleet(temporal)
