"""`nodemend demo`: one whole incident on real parts, and every claim about it read back."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from cli.demo_faults import Fault, choose, faults
from cli.demo_processes import DEV_KMSG, Nodemend, about, policy_in_words, running_nodemend, write_line
from cli.demo_proof import Before, Claim, prove
from cli.demo_screen import fault_list, final_screen
from cli.errors import INTERRUPTED, CommandError
from cli.incidents import Handle
from cli.live import follow_incident
from cli.output import Output, print_document
from cli.pressing import press_override
from contract.incident import IncidentReport
from contract.names import ExitCode, OverrideName, incident_id
from deploy.local.build import build
from deploy.local.errors import StackError
from deploy.local.scene import FEATURE_RANKS, TRAINING_RANKS, DemoScene, create_demo_scene, wait_for
from deploy.local.stack import Stack, running_stack
from deploy.local.trainers import Trainer, training

LIST: Final = "list"
_STARTED_WITHIN_S: Final = 30.0
_PLAYED_WITHIN_S: Final = 240.0
_REMEDY: Final = "Run the demo again; if it stays so, please report it with these lines."


@dataclass(frozen=True)
class _Played:
    report: IncidentReport
    claims: list[Claim]
    page: str
    """Of the incident in the Temporal UI."""

    @property
    def proven(self) -> bool:
        return all(claim.proven for claim in self.claims)


def play(*, keep: bool, fault: str, real_kmsg: bool, output: Output) -> int:
    """Run the demo. Returns 0 only when every claim was proven."""
    console = Console(stderr=output is not Output.TABLE)
    if fault == LIST:
        Console().print(fault_list(list(faults().values())))
        return ExitCode.OK
    try:
        chosen = choose(fault)
        if real_kmsg and not os.access(DEV_KMSG, os.W_OK):
            raise CommandError(
                f"--real-kmsg: {DEV_KMSG} may not be written.", "Run as root, or leave it out.", ExitCode.NO_PERMISSION
            )
        results = _results_folder()
        with _told_to_stop(), tempfile.TemporaryDirectory(prefix="nodemend-demo-") as folder:
            build(lambda line: console.print(f"[dim]{escape(line)}[/]"))
            return _play(Path(folder), results, chosen, console, keep=keep, real_kmsg=real_kmsg, output=output)
    except StackError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return error.exit_code
    except CommandError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return error.code
    except KeyboardInterrupt:
        console.print("Stopped. Nothing is left running.")
        return INTERRUPTED


def _play(
    folder: Path, results: Path, fault: Fault, console: Console, *, keep: bool, real_kmsg: bool, output: Output
) -> int:
    started = time.monotonic()
    with running_stack(folder, progress=lambda line: console.print(f"[dim]{escape(line)}[/]")) as stack:
        console.print(f"Temporal UI: [link]{stack.temporal.ui_url}[/]")
        scene = create_demo_scene(stack)
        console.print(
            f"6 Trainium-shaped nodes in group [bold]{scene.group}[/]: {scene.training_job} trains on 4 of them, "
            f"{scene.feature_job}, {scene.web} and a DaemonSet run beside it."
        )
        console.print(f"[dim]{policy_in_words(scene, real_kmsg=real_kmsg)}[/]")
        log = DEV_KMSG if real_kmsg else folder / "kmsg"
        records = results / "records"
        with (
            training(stack, scene.training_job, namespace=scene.namespace, ranks=TRAINING_RANKS) as trainer,
            training(stack, scene.feature_job, namespace=scene.namespace, ranks=FEATURE_RANKS) as other,
            running_nodemend(stack, scene, folder, log, records, real_kmsg=real_kmsg) as processes,
        ):
            trainers = {scene.training_job: trainer, scene.feature_job: other}
            wait_for(lambda: all(t.has_saved() for t in trainers.values()), "the jobs' first checkpoints")
            try:
                played = asyncio.run(_incident(stack, scene, trainers, fault, log, processes, console))
            except BaseException:
                _keep_logs(folder, results)
                raise
            took = time.monotonic() - started
            saved = results / "report.json"
            saved.write_text(played.report.model_dump_json(indent=2) + "\n", encoding="utf-8")
            if output is not Output.TABLE:
                print_document(_document(played, fault, took, saved), output)
                sys.stdout.flush()
            console.print(final_screen(played.report, played.claims))
            verdict = "Every claim was read back." if played.proven else "[red]Not every claim could be proven.[/]"
            console.print(f"{verdict} {took:.0f} s in all.\nReport: {saved}\nIncident: {played.page}", soft_wrap=True)
            if not played.proven:
                console.print(f"Logs: {_keep_logs(folder, results)}", soft_wrap=True)
            if keep:
                _keep_up(stack, console)
            else:
                console.print("[dim]The stack goes now; `nodemend demo --keep` leaves it up for a look around.[/]")
            return ExitCode.OK if played.proven else ExitCode.FAILED


async def _incident(
    stack: Stack,
    scene: DemoScene,
    trainers: dict[str, Trainer],
    fault: Fault,
    log: Path,
    processes: Nodemend,
    console: Console,
) -> _Played:
    client = await Client.connect(
        stack.temporal.address, namespace=stack.temporal.namespace, data_converter=pydantic_data_converter
    )
    before = Before.take(stack, scene)
    line = about(fault.line, scene)
    console.print(f"Kernel log of [bold]{scene.node}[/]: [yellow]{escape(line)}[/]", soft_wrap=True)
    write_line(log, line)
    handle = client.get_workflow_handle(
        incident_id(stack.environment()["NODEMEND_CLUSTER"], scene.node, scene.instance_id, drill=log == DEV_KMSG),
        result_type=IncidentReport,
    )
    page = f"{stack.temporal.ui_url}/namespaces/{stack.temporal.namespace}/workflows/{handle.id}"
    try:
        async with asyncio.timeout(_PLAYED_WITHIN_S):
            await _wait_for_start(handle, processes)
            seen = await follow_incident(
                handle, url=page, quiet=console.stderr, until_parked=True, alive=lambda: not processes.trouble()
            )
            if not seen.over and not processes.trouble():
                # Doubt is never destroyed away: the incident waits for a human, and here that is the demo.
                console.print("[yellow]It waits for a human. The demo presses `release`: the node is given back.[/]")
                reason = "the demo looked at the device"
                await press_override(handle, OverrideName.RELEASE, by="nodemend demo", reason=reason)
            if trouble := processes.trouble():
                raise CommandError(trouble, _REMEDY, ExitCode.SOFTWARE)
            report = await handle.result()
    except TimeoutError as error:
        raise CommandError(
            f"The incident was not over after {_PLAYED_WITHIN_S:.0f} s.\n{processes.tails()}",
            _REMEDY,
            ExitCode.SOFTWARE,
        ) from error
    return _Played(report, await prove(stack, scene, trainers, fault, before, handle, report), page)


async def _wait_for_start(handle: Handle, processes: Nodemend) -> None:
    until = time.monotonic() + _STARTED_WITHIN_S
    while time.monotonic() < until and not processes.trouble():
        with suppress(RPCError):
            await handle.describe()
            return
        await asyncio.sleep(0.05)
    raise CommandError(
        f"The detector started no incident within {_STARTED_WITHIN_S:.0f} s.\n"
        f"{processes.trouble() or processes.tails()}",
        _REMEDY,
        ExitCode.SOFTWARE,
    )


@contextmanager
def _told_to_stop() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does, so that it takes its stack with it."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _results_folder() -> Path:
    """A folder of this run's own, which stays: two demos at once share nothing.

    Raises:
        CommandError: nothing may be written here.
    """
    try:
        Path("build").mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"demo-{datetime.now(UTC):%H%M%S}-", dir="build")).absolute()
    except OSError as error:
        raise CommandError(
            f"The report cannot be written into {Path('build').absolute()}: {error.strerror}.",
            "Run the demo in a folder of yours.",
            ExitCode.NO_PERMISSION,
        ) from error


def _keep_logs(folder: Path, results: Path) -> Path:
    """What the processes said outlives the demo's folder when something went wrong."""
    logs = results / "logs"
    with suppress(OSError):
        shutil.copytree(folder / "logs", logs, dirs_exist_ok=True)
    return logs


def _keep_up(stack: Stack, console: Console) -> None:
    console.print(f"The stack stays up. Temporal UI: {stack.temporal.ui_url}  (Ctrl-C ends it.) For other terminals:")
    for name, value in {**stack.environment(), "NODEMEND_UI_URL": stack.temporal.ui_url}.items():
        console.print(f"export {name}={value}", soft_wrap=True, highlight=False)
    with suppress(KeyboardInterrupt):
        while True:
            signal.pause()


def _document(played: _Played, fault: Fault, took: float, saved: Path) -> dict[str, object]:
    return {
        "fault": fault.rule,
        "proven": played.proven,
        "duration_s": round(took, 1),
        "report_path": str(saved),
        "ui_url": played.page,
        "claims": [{"claim": claim.text, "proven": claim.proven, "read": claim.read} for claim in played.claims],
        "report": played.report.model_dump(mode="json"),
    }
