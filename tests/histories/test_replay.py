"""Incidents that earlier workers started go on under these: recorded histories replay without a difference."""

import gzip
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from worker.main import runner
from workflows.disrupt_gang import DisruptGang
from workflows.fleet_budget import FleetBudget
from workflows.remediate_node import RemediateNode

RECORDED = sorted(Path(__file__).parent.glob("*.json.gz"))


def test_there_are_histories() -> None:
    assert RECORDED


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
async def test_history_replays(path: Path) -> None:
    replayer = Replayer(
        workflows=[RemediateNode, DisruptGang, FleetBudget],
        data_converter=pydantic_data_converter,
        workflow_runner=runner(),
    )
    await replayer.replay_workflow(WorkflowHistory.from_json("replayed", gzip.decompress(path.read_bytes()).decode()))
