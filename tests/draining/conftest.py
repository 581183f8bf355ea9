"""Two nodes to drain one of."""

import pytest

from deploy.local.scene import NodeGroup
from tests.conftest import MakeNodeGroup


@pytest.fixture
def group(node_group: MakeNodeGroup) -> NodeGroup:
    return node_group(2)
