"""`nodemend demo`: one whole incident on real parts, and every claim about it read back."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from cli.demo_faults import Fault, choose
from cli.demo_proof import Before, Claim, prove
from cli.errors import CommandError
from cli.incidents import Handle
from cli.live import follow_incident
from cli.pressing import press_override
from cli.views import incident_view
from contract.incident import IncidentReport
from contract.names import ExitCode, OverrideName, incident_id
from deploy.local.build import build
from deploy.local.errors import StackError
from deploy.local.scene import DemoScene, create_demo_scene
from deploy.local.stack import Stack, running_stack

_STARTED_WITHIN_S: Final = 30.0
_POLICY: Final = """\
# The demo's policy. Settle, soak and start-up times are seconds here and minutes in earnest.
default: {{mode: shadow}}
groups:
  {group}:
    mode: act
    drills: {drills}
    max_disrupted_share: 0.2
    deadlines: {{settle: PT2S, soak: PT5S, checkpoint: PT30S, drain: PT60S, replacement: PT60S, verification: PT60S}}
"""
_KERNEL_ERROR: Final = 3
"""Priority of a record: facility kernel, level error."""


def play(*, keep: bool, fault: str, real_kmsg: bool, as_json: bool) -> int:
    """Run the demo. Returns 0 only when every claim was proven."""
    console = Console(stderr=as_json)
    try:
        chosen = choose(fault)
        if real_kmsg and not os.access("/dev/kmsg", os.W_OK):
            raise CommandError(
                "--real-kmsg: /dev/kmsg may not be written.", "Run as root, or leave it out.", ExitCode.NO_PERMISSION
            )
        build(lambda line: console.print(f"[dim]{escape(line)}[/]"))
        with tempfile.TemporaryDirectory(prefix="nodemend-demo-") as folder:
            return _play(Path(folder), chosen, console, keep=keep, real_kmsg=real_kmsg, as_json=as_json)
    except StackError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return error.exit_code
    except CommandError as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return error.code
    except KeyboardInterrupt:
        console.print("Stopped. Nothing is left running.")
        return ExitCode.FAILED


def _play(folder: Path, fault: Fault, console: Console, *, keep: bool, real_kmsg: bool, as_json: bool) -> int:
    started = time.monotonic()
    with running_stack(folder, progress=lambda line: console.print(f"[dim]{escape(line)}[/]")) as stack:
        console.print(f"Temporal UI: [link]{stack.temporal.ui_url}[/]")
        scene = create_demo_scene(stack)
        console.print(
            f"6 Trainium-shaped nodes in group [bold]{scene.group}[/]: {scene.training_job} trains on 4 of them, "
            f"{scene.feature_job}, {scene.web} and a DaemonSet run beside it."
        )
        log = Path("/dev/kmsg") if real_kmsg else folder / "kmsg"
        with _running_nodemend(stack, scene, folder, log, real_kmsg=real_kmsg):
            report, claims = asyncio.run(_incident(stack, scene, fault, log, folder, console))
            took = time.monotonic() - started
            saved = _keep_report(report)
            if as_json:
                print(json.dumps(_document(report, claims, took, saved), indent=2, ensure_ascii=False))
            if not console.is_terminal:
                console.print(incident_view(report))
            console.print(_claims_table(claims))
            proven = all(claim.proven for claim in claims)
            console.print(
                f"{'Every claim was read back.' if proven else '[red]Not every claim could be proven.[/]'} "
                f"{took:.0f} s in all. Report: {saved}",
                soft_wrap=True,
            )
            if keep:
                _keep_up(stack, console)
            return ExitCode.OK if proven else ExitCode.FAILED


async def _incident(
    stack: Stack, scene: DemoScene, fault: Fault, log: Path, folder: Path, console: Console
) -> tuple[IncidentReport, list[Claim]]:
    client = await Client.connect(
        stack.temporal.address, namespace=stack.temporal.namespace, data_converter=pydantic_data_converter
    )
    before, written_at = Before.take(stack, scene), datetime.now(UTC)
    line = fault.on(scene)
    console.print(f"Kernel log of [bold]{scene.node}[/]: [yellow]{escape(line)}[/]", soft_wrap=True)
    _write(log, line)
    drill = log == Path("/dev/kmsg")
    handle = client.get_workflow_handle(
        incident_id(stack.environment()["NODEMEND_CLUSTER"], scene.node, scene.instance_id, drill=drill),
        result_type=IncidentReport,
    )
    await _wait_for_start(handle, folder)
    url = f"{stack.temporal.ui_url}/namespaces/{stack.temporal.namespace}/workflows/{handle.id}"
    seen = await follow_incident(handle, url=url, quiet=console.stderr, until_parked=True)
    if not seen.over:
        # Doubt is never destroyed away: the incident waits for a human, and here that is the demo.
        console.print("[yellow]It waits for a human. The demo presses `release`: the node is given back.[/]")
        await press_override(handle, OverrideName.RELEASE, by="nodemend demo", reason="the demo looked at the device")
    report = await handle.result()
    return report, await prove(stack, scene, before, handle, report, written_at)


async def _wait_for_start(handle: Handle, folder: Path) -> None:
    until = time.monotonic() + _STARTED_WITHIN_S
    while time.monotonic() < until:
        with suppress(RPCError):
            await handle.describe()
            return
        await asyncio.sleep(0.05)
    tail = "\n".join((folder / "detector.log").read_text(errors="replace").splitlines()[-10:])
    raise CommandError(
        f"The detector started no incident within {_STARTED_WITHIN_S:.0f} s. The end of its log:\n{tail}",
        "Run the demo again; if it stays so, please report it.",
        ExitCode.SOFTWARE,
    )


@contextmanager
def _running_nodemend(stack: Stack, scene: DemoScene, folder: Path, log: Path, *, real_kmsg: bool) -> Iterator[None]:
    """A worker, and the detector of the node that is going to fail, as users run them."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY.format(group=scene.group, drills="act" if real_kmsg else "shadow"))
    common = {**os.environ, **stack.environment()}
    worker = {
        **common,
        "NODEMEND_POLICY_FILE": str(policy),
        "NODEMEND_RECORD_DIR": str(folder / "records"),
        "NODEMEND_HEALTH_ADDRESS": "127.0.0.1:0",
        "NODEMEND_METRICS_ADDRESS": "",
    }
    detector = {
        **common,
        "NODE_NAME": scene.node,
        "NODEMEND_INSTANCE_ID": scene.instance_id,
        "NODEMEND_KMSG": str(log),
        "NODEMEND_SPOOL_DIR": str(folder / "spool"),
        "NODEMEND_DETECTOR_ADDRESS": "127.0.0.1:0",
    }
    if real_kmsg:
        _skip_old_records(folder / "spool")
    else:
        log.touch()
    with ExitStack() as processes:
        for module, environment in (("worker", worker), ("detector", detector)):
            output = processes.enter_context((folder / f"{module}.log").open("wb"))
            process = subprocess.Popen([sys.executable, "-m", module], env=environment, stderr=output, stdout=output)
            processes.callback(_stop, process)
        yield


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _write(log: Path, line: str) -> None:
    if log == Path("/dev/kmsg"):
        log.write_text(f"{line}\n")
        return
    with log.open("a") as handle:
        handle.write(f"{_KERNEL_ERROR},1,{time.monotonic_ns() // 1000},-;{line}\n")


def _skip_old_records(spool: Path) -> None:
    """What this machine's kernel said before the demo is not the demo's."""
    from detector.kmsg import Reader, Record
    from detector.spool import STATE, write_json

    reader = Reader("/dev/kmsg", None)
    newest = max((item.seq for item in reader.read() if isinstance(item, Record)), default=0)
    reader.close()
    spool.mkdir(parents=True, exist_ok=True)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    write_json(str(spool / STATE), {"boot_id": boot_id, "seq": newest})


def _keep_report(report: IncidentReport) -> Path:
    """The report outlives the demo's folder."""
    path = Path("build") / "demo-report.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return path.absolute()


def _keep_up(stack: Stack, console: Console) -> None:
    console.print(f"The stack stays up. Temporal UI: {stack.temporal.ui_url}  (Ctrl-C ends it.) For other terminals:")
    for name, value in stack.environment().items():
        console.print(f"export {name}={value}", soft_wrap=True)
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


def _claims_table(claims: list[Claim]) -> Table:
    table = Table("", "Claim", "Read back", box=None, header_style="bold")
    for claim in claims:
        table.add_row("[green]✓[/]" if claim.proven else "[red]✗[/]", escape(claim.text), escape(claim.read))
    return table


def _document(report: IncidentReport, claims: list[Claim], took: float, saved: Path) -> dict[str, object]:
    return {
        "proven": all(claim.proven for claim in claims),
        "duration_s": round(took, 1),
        "report_path": str(saved),
        "claims": [{"claim": claim.text, "proven": claim.proven, "read": claim.read} for claim in claims],
        "report": report.model_dump(mode="json"),
    }
