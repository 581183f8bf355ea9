"""One worker process: ``python -m worker`` or ``nodemend work``.

It ends by itself only for reasons that waiting does not mend, each with its own exit code (sysexits.h). On SIGTERM it
takes no new work, lets running acts finish or hand over, and ends with 0.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

from temporalio.client import Client
from temporalio.worker import Interceptor, UnsandboxedWorkflowRunner, Worker

from activities.all import node_activities
from activities.budget import BudgetActivities
from activities.export import ExportActivity
from activities.gang_members import GangMemberActivities
from activities.hand_over import HandOver
from activities.orphans import OrphanActivity
from activities.permits import PermitActivities, open_desk
from activities.record import RecordActivity
from activities.record_webhook import RecordWebhook
from activities.waiting_mark import WaitingMark
from contract.address import parse_address
from contract.names import BUDGET_TASK_QUEUE, TASK_QUEUE
from worker.clients import ACTS_AT_ONCE, archive_client, auto_scaling_client, cloudwatch, cluster_client
from worker.cloudwatch import MetricsInterceptor
from worker.health import Health, HealthServer, beat, watch_health
from worker.interceptors import CareInterceptor
from worker.metrics import begin_at_zero
from worker.policy_file import PolicyFile, watch_policy
from worker.process import connected, run, told_to_stop
from worker.schedules import keep_reaping
from worker.settings import WorkerSettings
from worker.temporal import connect, load_connection, make_runtime, register_search_attributes
from worker.tracing import Tracing
from workflows.disrupt_gang import DisruptGang
from workflows.fleet_budget import FleetBudget
from workflows.reap_orphans import ReapOrphans
from workflows.remediate_node import RemediateNode

_log = logging.getLogger(__name__)

GRACE: Final = timedelta(seconds=30)
"""For acts that run when the worker is told to stop. The pod's termination grace period must be longer."""
BEAT: Final = timedelta(seconds=2)
"""How often acts beat: well under their heartbeat time-out, so that only a dead worker is silent that long."""
STICKY: Final = timedelta(seconds=5)
"""How much later the incidents that a killed worker had in its cache move on."""
CACHED: Final = 250
"""Incidents whose state one process keeps; others are replayed when they go on. Each takes some 150 KiB, and a thousand
may wait for humans for weeks. A hundred acts run at once: what moves in a storm is kept."""


def main(_argv: Sequence[str] | None = None) -> int:
    """Run until told to stop. Returns the exit code."""
    return run("nodemend work", WorkerSettings, _work)


async def _work(settings: WorkerSettings) -> None:
    policy = PolicyFile(settings.policy_file)
    cluster, auto_scaling = cluster_client(), auto_scaling_client()
    runtime = make_runtime(settings.metrics_address)
    health = Health()
    tracing = Tracing()
    metrics = cloudwatch() if settings.cloudwatch else None
    server = HealthServer(parse_address(settings.health_address), health)
    identity = f"{os.getpid()}@{socket.gethostname()}/{settings.cluster}"
    stopping = told_to_stop()
    beating = asyncio.create_task(beat(health))
    watching = asyncio.create_task(watch_policy(policy, runtime.metric_meter))
    try:
        client = await connected(connect(load_connection(), runtime, identity), stopping)
        if client is None:
            return
        begin_at_zero(runtime.metric_meter, client.namespace)
        await register_search_attributes(client)
        await keep_reaping(client, settings.cluster, settings.reap_interval_s)
        async with open_desk(client, settings.cluster) as desk:
            with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE, thread_name_prefix="act") as executor:
                permits = PermitActivities(client, desk, WaitingMark(cluster))
                budget = BudgetActivities(client, cluster, auto_scaling, policy)
                hand_over = HandOver(client)
                orphans = OrphanActivity(client, cluster, hand_over)
                archive = archive_client(settings.record_s3)
                export = ExportActivity(client, RecordActivity(settings.record_dir, archive))
                acts = node_activities(
                    cluster,
                    auto_scaling,
                    policy,
                    desk,
                    hand_over,
                    settings.record_dir,
                    settings.cluster,
                    settings.namespace,
                    archive,
                    _record_webhook(settings),
                )
                gang = GangMemberActivities(client)
                talking = [gang.join_gang, gang.await_gang, gang.leave_gang, gang.tell_gang]
                asking = [permits.ask_permit, permits.return_permits]
                worker = make_worker(
                    client,
                    [*acts, *talking, *asking, orphans.reap_orphans, export.export_records],
                    executor,
                    tracing=tracing.interceptor(),
                    metrics=MetricsInterceptor(metrics) if metrics else None,
                )
                async with make_budget_worker(client, [budget.count_cluster, permits.deliver_grants]):
                    await _serve(worker, client, identity, health, stopping, server.address)
    finally:
        for task in (stopping, beating, watching):
            task.cancel()
        server.close()
        tracing.close()
        if metrics:
            await asyncio.to_thread(metrics.close)


def _record_webhook(settings: WorkerSettings) -> RecordWebhook | None:
    url = settings.record_webhook.get_secret_value()
    return RecordWebhook(url, settings.webhook_secret.get_secret_value()) if url else None


def make_worker(
    client: Client,
    acts: Sequence[object],
    executor: ThreadPoolExecutor,
    task_queue: str = TASK_QUEUE,
    beat: timedelta = BEAT,
    tracing: Interceptor | None = None,
    metrics: Interceptor | None = None,
) -> Worker:
    """The worker as it runs in production, over the acts that it is given."""
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[RemediateNode, DisruptGang, ReapOrphans],
        activities=acts,  # type: ignore[arg-type]
        activity_executor=executor,
        max_concurrent_activities=ACTS_AT_ONCE,
        workflow_runner=runner(),
        max_cached_workflows=CACHED,
        # The metrics' is the innermost: it sees what acts answer, before their trail is put beside it.
        interceptors=[*([tracing] if tracing else []), CareInterceptor(beat), *([metrics] if metrics else [])],
        # Cancelling reaches an act with the answer to a heartbeat; the default would hold heartbeats back for 8 s.
        max_heartbeat_throttle_interval=beat,
        sticky_queue_schedule_to_start_timeout=STICKY,
        graceful_shutdown_timeout=GRACE,
    )


def make_budget_worker(client: Client, acts: Sequence[object]) -> Worker:
    """The worker of FleetBudget, on a queue of its own.

    Incidents wait inside their acts for FleetBudget's answer. On one queue a hundred of them would hold every slot,
    and the count that the answer needs would never run (seen with 150 faults at once).
    """
    return Worker(
        client,
        task_queue=BUDGET_TASK_QUEUE,
        workflows=[FleetBudget],
        activities=acts,  # type: ignore[arg-type]
        max_concurrent_activities=4,
        workflow_runner=runner(),
        interceptors=[CareInterceptor(BEAT)],
        max_heartbeat_throttle_interval=BEAT,
        sticky_queue_schedule_to_start_timeout=STICKY,
        graceful_shutdown_timeout=GRACE,
    )


def runner() -> UnsandboxedWorkflowRunner:
    """Runs workflows without the SDK's sandbox: it costs a quarter of an incident's CPU time in the worker.

    It would load their modules anew for each incident, or watch over none of them where they are passed through. What
    it is for, ``tests/deciding/test_determinism.py`` holds before they run.
    """
    return UnsandboxedWorkflowRunner()


async def _serve(
    worker: Worker, client: Client, identity: str, health: Health, stopping: "asyncio.Task[bool]", address: str
) -> None:
    watching = asyncio.create_task(watch_health(client, identity, health))
    running = asyncio.create_task(worker.run())
    _log.info("Working on task queue %s of %s; health on http://%s/healthz", TASK_QUEUE, client.namespace, address)
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
            return
        _log.info("Told to stop: running acts have %.0f s to finish or hand over", GRACE.total_seconds())
        health.set(ok=False, reason="stopping")
        await worker.shutdown()
        await running
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
