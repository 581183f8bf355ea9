"""What the checkpoint protocol is worth and what it costs: a process that really trains, killed 20 times each way.

Every incident lets the job train for a while, and ends it as an eviction does. With the protocol it is asked first, by
the real act through the real API server. Lost are the steps between where it was and what it resumes from.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from activities.checkpoint import CheckpointActivity
from contract.acts import CheckpointStatus, RequestCheckpoints
from contract.fault import DataTrust
from contract.identity import Target
from contract.names import ActivityName
from deploy.jobs.nodemend_checkpoint import CheckpointAgent
from deploy.local.scene import add_pod, create_node_group, running_pods, wait_for
from deploy.local.stack import Stack
from deploy.local.work import checkpoint_folder, training_annotations
from tests.acting import Acting, acting_on
from tests.benchmarks.figures import ROOT, Figure, at_most, told
from tests.checkpointing.gang_play import GangPlay
from tests.harness import connect
from tests.runbook.world import Stuck, World, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker

INCIDENTS = 20
EVERY = 100
"""Steps between two checkpoints of the job's own; one takes 20 ms."""
NODES = 64
_TRAINS = (
    "import sys; from pathlib import Path; from deploy.jobs import nodemend_checkpoint as n; n.STANDING_EVERY_S = 0;"
    f"from deploy.local.training import train; train(Path(sys.argv[1]), {EVERY})"
)


def measure(stack: Stack, _folder: Path) -> Iterator[Figure]:
    """Lost work each way, the time that asking adds, and requests per gang."""
    (node,) = create_node_group(stack, "bench-checkpoint", 1).nodes
    annotations = training_annotations(stack, "default/trains")
    add_pod(stack, "trains", node=node, annotations=annotations)
    wait_for(lambda: len(running_pods(stack, "trains")) == 1, "the pod")
    folder = checkpoint_folder(stack, "default/trains")
    with acting_on(stack) as acting:
        target = acting.claim(node)
        chance = random.Random(7)
        without = [_incident(folder, chance)[0] for _ in range(INCIDENTS)]
        asked = [_incident(folder, chance, acting, target, number) for number in range(INCIDENTS)]
    note = f"{INCIDENTS} incidents, a checkpoint of its own every {EVERY} steps"
    lost = statistics.mean(steps for steps, _ in asked)
    yield told("checkpoint_lost_steps_without", statistics.mean(without), "steps", note)
    yield at_most("checkpoint_lost_steps_with", lost, "steps", statistics.mean(without) / 4, note)
    yield at_most("checkpoint_time_added_s", statistics.median(took for _, took in asked), "s", 5.0, "median")
    yield at_most("checkpoint_requests_per_gang", asyncio.run(_requests(stack)), "calls", 1.0, f"{NODES} nodes at once")


def _incident(
    folder: Path, chance: random.Random, acting: Acting | None = None, target: Target | None = None, number: int = 0
) -> tuple[int, float]:
    """Train, be asked or not, be killed. Returns the steps that are lost, and how long asking took."""
    agent, took = CheckpointAgent(folder), 0.0
    start = agent.resume_step()
    process = subprocess.Popen([sys.executable, "-c", _TRAINS, str(folder)], cwd=ROOT)
    try:
        goal = start + chance.randint(20, 220)
        wait_for(lambda: _at(folder) >= goal, f"step {goal}")
        if acting and target:
            nonce, began = f"bench-{number}", time.monotonic()
            argument = RequestCheckpoints(
                target=target, nonce=nonce, data=DataTrust.TRUSTED, deadline=timedelta(seconds=30)
            )
            (job,) = acting.do(CheckpointActivity(acting.cluster, lambda _: None).request_checkpoints, argument).jobs
            took = time.monotonic() - began
            assert job.status is CheckpointStatus.SAVED, job.explanation
    finally:
        process.kill()
        process.wait()
    return _at(folder) - (agent.resume_step() - 1), took


def _at(folder: Path) -> int:
    path = folder / "standing.json"
    return int(json.loads(path.read_text())["at"]) if path.exists() else -1


async def _requests(stack: Stack) -> float:
    """How often a job is asked that loses 64 nodes at once."""
    client, world, looking = await connect(stack), World(), Stuck()
    world.on(ActivityName.LOOK_AT_GANG, looking)
    gang = GangPlay(client, "bench-gang", world)
    nodes = [f"node-{number}" for number in range(NODES)]
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(client, scripted_acts(), executor, "bench-gang", beat=timedelta(seconds=0.1)):
            await asyncio.gather(*(gang.join(node) for node in nodes))
            while (await gang.state()).joined < NODES:
                await asyncio.gather(*(gang.join(node) for node in nodes))
            looking.let_go.set()
            await asyncio.gather(*(gang.until_released(node) for node in nodes))
            await asyncio.gather(*(gang.leave(node) for node in nodes))
            await gang.handle.result()
    return float(len(gang.asked()))
