"""`nodemend`: one command for operators and developers.

Heavy modules are imported by the command that needs them, so that ``--help`` answers at once.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from cli.doctor.command import doctor
from cli.errors import INTERRUPTED, CommandError
from cli.judging import commands
from cli.output import Output, OutputOption, plain, print_document
from contract.names import BudgetOrderName, ExitCode, OverrideName

EXIT_CODES: Final = f"""Exit codes: {ExitCode.OK} done · {ExitCode.FAILED} refused, or ended without a healthy node ·
{ExitCode.USAGE} wrong usage, or it fits several incidents · {ExitCode.DATA} a file is not valid ·
{ExitCode.NO_INPUT} not found · {ExitCode.UNAVAILABLE} Temporal cannot be reached · {ExitCode.SOFTWARE} a fault of
ours · {ExitCode.NO_PERMISSION} refused credentials · {ExitCode.CONFIG} a setting is missing or wrong · {INTERRUPTED}
stopped by Ctrl-C."""

app = typer.Typer(
    no_args_is_help=True,
    help="Repairs failing nodes of Kubernetes training fleets: durable, checkpoint-aware, with a complete record.",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PASS_ON: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}
"""What follows is somebody else's to read, `--help` too."""

T = TypeVar("T")

ReasonOption = Annotated[str, typer.Option("--reason", "-r", help="Why; it is in the record.")]
ByOption = Annotated[str, typer.Option("--by", help="Who; it is in the record.")]
USER: Final = os.environ.get("USER", "")
GroupOption = Annotated[str | None, typer.Option("--group", help="One node group; left out: the whole cluster.")]
ActOption = Annotated[str, typer.Option("--id", help="Identity of this act; the same id applies once.")]
TargetArgument = Annotated[str, typer.Argument(help="A node's name, or an incident's id.")]


@app.command(epilog=EXIT_CODES)
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up for looking around, until Ctrl-C.")] = False,
    fault: Annotated[str, typer.Option("--fault", help="Rule whose line is played; `list` shows them.")] = "demo",
    real_kmsg: Annotated[
        bool, typer.Option("--real-kmsg", help="Write the line into /dev/kmsg (root); it is a drill then.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play one incident on the embedded stack, from a kernel line to a verified replacement."""
    from cli.demo import play

    _end(play(keep=keep, fault=fault, real_kmsg=real_kmsg, output=output))


@app.command(epilog=EXIT_CODES)
def work() -> None:
    """Run a worker until told to stop. Settings: NODEMEND_* and TEMPORAL_* (docs/operating.md)."""
    from worker.main import main as worker_main

    _end(worker_main())


@app.command(epilog=EXIT_CODES)
def detect() -> None:
    """Run the detector of this node. Settings: NODEMEND_*, NODE_NAME and TEMPORAL_* (docs/detector.md)."""
    from detector.main import main as detector_main

    _end(detector_main())


@app.command(name="watch-cluster", epilog=EXIT_CODES)
def watch_cluster() -> None:
    """Watch the cluster's Nodes for what no node says of itself. Settings: NODEMEND_*, POD_* and TEMPORAL_*."""
    from detector.cluster.main import main as watch_main

    _end(watch_main())


@app.command(epilog=EXIT_CODES)
def page() -> None:
    """Page people about what needs one: Slack, PagerDuty, a webhook. Settings: NODEMEND_* (docs/operating.md)."""
    from worker.paging.main import main as pager_main

    _end(pager_main())


@app.command(epilog=EXIT_CODES)
def status(
    everything: Annotated[bool, typer.Option("--all", help="Closed incidents too.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List open incidents, and who waits for a permit."""

    async def ask() -> None:
        from cli.connection import cluster, connect
        from cli.incidents import listed, read_budget
        from cli.views import status_view

        name = cluster()
        client = await connect()
        # Side by side: without workers the budget takes seconds not to answer.
        asking = asyncio.create_task(read_budget(client, name), name="ask-budget")
        found = [incident async for incident in listed(client, name, open_only=not everything)]
        budget = await asking
        if output is not Output.TABLE:
            incidents = [
                {
                    "incident_id": incident.handle.id,
                    "run_id": incident.handle.run_id,
                    "status": incident.status.name.lower() if incident.status else None,
                    "report": plain(incident.report),
                }
                for incident in found
            ]
            print_document({"incidents": incidents, "budget": plain(budget)}, output)
        else:
            _console().print(status_view(found, budget))

    _run(ask())


@app.command(epilog=EXIT_CODES)
def watch(target: TargetArgument, output: OutputOption = Output.TABLE) -> None:
    """Follow an incident until it is over. Ends with 0 when no broken node is left for a human, else with 1.

    0: replaced, observed, shadowed, stale, node-gone, released. 1: replaced-unverified, refused, vetoed, aborted, or
    the workflow was ended from outside. 130 after Ctrl-C, which stops the looking and not the incident.
    """

    async def follow() -> int:
        from cli.connection import cluster, connect, page_of
        from cli.incidents import find
        from cli.live import follow_incident
        from cli.views import SETTLED

        name = cluster()
        client = await connect()
        handle = await find(client, name, target)
        last = await follow_incident(handle, url=page_of(client, handle.id), quiet=output is not Output.TABLE)
        if output is not Output.TABLE:
            print_document(plain(last.report), output)
        if last.trouble:
            typer.echo(last.trouble, err=True)
        settled = last.report is not None and last.report.outcome in SETTLED
        return ExitCode.OK if settled else ExitCode.FAILED

    _end(_run(follow()))


@app.command(epilog=EXIT_CODES)
def report(
    target: Annotated[
        str | None, typer.Argument(help="A node's name, or an incident's id. Left out: with --fleet.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Write the report as JSON here.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page here that needs nothing but itself.")
    ] = None,
    fleet: Annotated[bool, typer.Option("--fleet", help="All incidents in place of one; goes with --html.")] = False,
    since: Annotated[datetime | None, typer.Option("--since", help="With --fleet: opened since then, in UTC.")] = None,
    records: Annotated[
        str, typer.Option("--records", help="With --fleet: a folder or s3://bucket/prefix in place of Temporal.")
    ] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the report of an incident, running or closed, or write it as a page; with --fleet, of all of a period."""
    if fleet is (target is not None) or (fleet and html is None) or (not fleet and (since or records)):
        raise CommandError(
            "It is not clear which incidents are meant.",
            "Name a node or an incident; or all: --fleet --html FILE, and if you like --since and --records.",
            ExitCode.USAGE,
        )
    if fleet and html:
        from cli.reporting import write_fleet_page

        _run(write_fleet_page(records, since, lambda page: _write(html, page)))
        return

    async def show() -> None:
        from cli.connection import cluster, connect, page_of
        from cli.incidents import find
        from cli.looking import look
        from cli.views import report_view

        name = cluster()
        client = await connect()
        handle = await find(client, name, target or "")
        seen = await look(handle)
        if seen.report is None:
            raise CommandError(
                f"{handle.id} has no report: {seen.trouble or 'no worker has looked at it yet.'}",
                "Its history is in the Temporal UI."
                if seen.over
                else "Start a worker (`nodemend work`) and try again.",
                ExitCode.FAILED if seen.over else ExitCode.UNAVAILABLE,
            )
        if file:
            _write(file, seen.report.model_dump_json(indent=2) + "\n")
        if html:
            from cli.reporting import incident_page_now

            _write(html, incident_page_now(seen.report))
        if output is not Output.TABLE:
            print_document(plain(seen.report), output)
        else:
            _console().print(report_view(seen.report, page_of(client, handle.id)))
        if seen.trouble:
            typer.echo(seen.trouble, err=True)

    _run(show())


@app.command("checkpoint-agent", add_help_option=False, context_settings=_PASS_ON)
def checkpoint_agent(context: typer.Context) -> None:
    """Checkpoints of a training job: the file deploy/jobs/nodemend_checkpoint.py, as jobs run it."""
    from deploy.jobs.nodemend_checkpoint import main as run

    _end(run(context.args))


@app.command(epilog=EXIT_CODES)
def history(
    key: Annotated[str, typer.Argument(help="A node, an instance, a host or a serial number; all without.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of the workers.", envvar="NODEMEND_NAMESPACE")
    ] = "default",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show machines that failed, as the cluster remembers them across incidents. Needs the cluster (KUBECONFIG)."""
    from temporalio.exceptions import ApplicationError

    from cli.history import history_view, remembered
    from contract.names import ErrorType
    from worker.errors import StartError

    try:
        machines = remembered(key, namespace)
    except StartError as error:
        raise CommandError(str(error), "", error.code) from error
    except ApplicationError as error:
        denied = error.type == ErrorType.ACCESS_DENIED
        code = ExitCode.NO_PERMISSION if denied else ExitCode.UNAVAILABLE
        raise CommandError(error.message, "Check KUBECONFIG and your rights on ConfigMaps.", code) from error
    if output is not Output.TABLE:
        print_document([plain(machine) for machine in machines], output)
    else:
        _console().print(history_view(machines, key, namespace))


@app.command(epilog=EXIT_CODES)
def uninstall(
    check: Annotated[
        bool, typer.Option("--check", help="Only list what is there; exit code 1 when there is any.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Clear what Nodemend leaves on Nodes, on the cluster and in Temporal, after `helm uninstall` (KUBECONFIG)."""
    from temporalio.exceptions import ApplicationError

    from cli.connection import cluster, connect
    from cli.leftovers import ClusterLeftovers, Leftover
    from cli.uninstall import SPOOL_HINT, left
    from cli.uninstall import uninstall as clear
    from contract.names import ErrorType
    from worker.clients import cluster_client
    from worker.errors import StartError

    async def work() -> list[Leftover]:
        name = cluster()
        leftovers = ClusterLeftovers(cluster_client(), name)
        client = await connect()
        if not check:
            await clear(client, name, leftovers, lambda line: typer.echo(line, err=True))
        return await left(client, name, leftovers)

    try:
        found = _run(work())
    except StartError as error:
        raise CommandError(str(error), "", error.code) from error
    except ApplicationError as error:
        denied = error.type == ErrorType.ACCESS_DENIED
        code = ExitCode.NO_PERMISSION if denied else ExitCode.UNAVAILABLE
        raise CommandError(error.message, "Nodes, Leases, ConfigMaps and Jobs are read and cleared.", code) from error
    if output is not Output.TABLE:
        print_document([vars(leftover) for leftover in found], output)
    else:
        lines = [
            f"{leftover.kind} {leftover.name}" + (f": {leftover.what}" if leftover.what else "") for leftover in found
        ]
        typer.echo("\n".join(lines) or "Nothing of Nodemend is left here.")
        typer.echo(SPOOL_HINT, err=True)
    _end(ExitCode.FAILED if found else ExitCode.OK)


@app.command(add_help_option=False, context_settings=_PASS_ON)
def local(context: typer.Context) -> None:
    """The embedded stack: Temporal, Kubernetes and AWS on this machine."""
    # Mounted only here: it brings the SDKs of Kubernetes and AWS, which cost every other command half a second.
    from cli.local import app as local_app

    local_app(args=context.args, prog_name="nodemend local")


@app.command(add_help_option=False, context_settings=_PASS_ON)
def rules(context: typer.Context) -> None:
    """The rules of the detector: list, show, check, test a line, classify many, import from another detector."""
    from cli.rules import app as rules_app

    rules_app(args=context.args, prog_name="nodemend rules")


@app.command(add_help_option=False, context_settings=_PASS_ON)
def policy(context: typer.Context) -> None:
    """The policy: check a file line by line, show what holds."""
    from cli.policy import app as policy_app

    policy_app(args=context.args, prog_name="nodemend policy")


@app.command(epilog=EXIT_CODES)
def ui(
    group: Annotated[str, typer.Option("--group", help="A view of this node group too.")] = "",
    signature: Annotated[str, typer.Option("--signature", help="A view of this fault too.")] = "",
) -> None:
    """Print links of saved views for the Temporal UI; each browser keeps what it visits."""

    async def show() -> None:
        from cli.connection import connect, page_of
        from cli.ui import saved_views

        base = page_of(await connect(), "").rstrip("/")
        if not base:
            raise CommandError(
                "Nobody said where the Temporal UI is, and the server does not know.",
                "Set NODEMEND_UI_URL to its address.",
                ExitCode.CONFIG,
            )
        for name, link in saved_views(base, group, signature, datetime.now(UTC)):
            typer.echo(f"{name}: {link}")

    _run(show())


@app.command(add_help_option=False, context_settings=_PASS_ON)
def audit(context: typer.Context) -> None:
    """The audit logs of closed incidents: list who did what and why, verify that nobody changed them."""
    from cli.audit import app as audit_app

    audit_app(args=context.args, prog_name="nodemend audit")


@app.command(epilog=EXIT_CODES)
def budget(output: OutputOption = Output.TABLE) -> None:
    """Show the fleet's budget: what is in use, who waits and why, what is paused."""

    async def show() -> None:
        from cli.budget import budget_view, look_at_budget
        from cli.connection import cluster, connect, page_of
        from contract.names import budget_id

        name = cluster()
        client = await connect()
        state = await look_at_budget(client, name)
        if output is not Output.TABLE:
            print_document(plain(state), output)
        else:
            _console().print(budget_view(state, page_of(client, budget_id(name))))

    _run(show())


@app.command(epilog=EXIT_CODES)
def pause(
    reason: ReasonOption, by: ByOption = USER, group: GroupOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Grant no new permits, to the whole cluster or to one group. What was granted before goes on."""
    _run(_tell(BudgetOrderName.PAUSE, by, reason, group, output))


@app.command(epilog=EXIT_CODES)
def resume(
    reason: ReasonOption,
    target: Annotated[
        str | None, typer.Argument(help="A node's name, or an incident's id. Left out: the budget of the fleet.")
    ] = None,
    by: ByOption = USER,
    group: GroupOption = None,
    act: ActOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Go on: an incident after a hold or a failed step; without a target, the fleet after a pause."""
    if target is None:
        _run(_tell(BudgetOrderName.RESUME, by, reason, group, output))
    elif group is not None:
        raise CommandError(
            "An incident and --group do not go together.",
            "Name the incident to go on with, or the group whose pause is lifted.",
            ExitCode.USAGE,
        )
    else:
        _run(_press(OverrideName.RESUME, target, by, reason, act, output))


@app.command(name="codec-server", epilog=EXIT_CODES)
def codec_server(
    ui: Annotated[str, typer.Option("--ui", help="Where the Temporal UI is: its pages alone may ask.")],
    address: Annotated[str, typer.Option("--address", help="host:port to listen on.")] = "127.0.0.1:8081",
) -> None:
    """Open closed payloads for the Temporal UI, until Ctrl-C (NODEMEND_PAYLOAD_KEYS)."""
    from cli.codec_server import serve

    serve(address, ui)


@app.command(epilog=EXIT_CODES)
def simulate(
    fleet: Annotated[
        str, typer.Argument(help="llama3-16k, rsc1-16k, rsc2-8k, small, or a YAML file of your own.")
    ] = "small",
    policy: Annotated[Path | None, typer.Option("--policy", help="Policy file; left out: the default.")] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Policy to compare with; left out: every report is acted on at once."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed, the same faults.")] = 1,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="Write a chart of the nodes at work (SVG) here.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play faults and a bad roll-out on a model of a fleet: what would this policy have done?"""
    from cli.simulation.command import plain as in_plain_words
    from cli.simulation.command import run, show

    model, results = run(fleet, policy, against, seed, chart)
    if output is not Output.TABLE:
        print_document(in_plain_words(model, seed, results), output)
    else:
        show(model, results)


app.command(epilog=EXIT_CODES)(doctor)
app.command(epilog=EXIT_CODES)(commands.plan)
app.command(epilog=EXIT_CODES)(commands.replay)
app.command(epilog=EXIT_CODES)(commands.scorecard)


async def _tell(order: BudgetOrderName, by: str, reason: str, group: str | None, output: Output) -> None:
    from cli.budget import tell_budget
    from cli.connection import cluster, connect

    name = cluster()
    told = await tell_budget(await connect(), name, order, by=by, reason=reason, group=group)
    if output is not Output.TABLE:
        print_document(
            {"cluster": name, "order": order, "group": group, "answer": told.answer, "applied": told.applied}, output
        )
    else:
        typer.echo(f"{name}: {told.answer}")


async def _press(name: OverrideName, target: str, by: str, reason: str, act: str, output: Output, **more: str) -> None:
    from cli.connection import cluster, connect
    from cli.incidents import find
    from cli.pressing import press_override

    cluster_name = cluster()
    client = await connect()
    handle = await find(client, cluster_name, target, open_only=True)
    pressed = await press_override(handle, name, by=by, reason=reason, act=act, **more)
    if output is not Output.TABLE:
        print_document(
            {"incident_id": handle.id, "override": name, "answer": pressed.answer, "applied": pressed.applied}, output
        )
    else:
        typer.echo(f"{handle.id}: {pressed.answer}")


def _override(name: OverrideName, words: str) -> None:
    def command(
        target: TargetArgument,
        reason: ReasonOption,
        by: ByOption = USER,
        act: ActOption = "",
        output: OutputOption = Output.TABLE,
    ) -> None:
        _run(_press(name, target, by, reason, act, output))

    command.__doc__ = words
    app.command(name=name.replace("_", "-"), epilog=EXIT_CODES)(command)


_override(OverrideName.HOLD, "Stop an incident before its next step.")
_override(OverrideName.RETRY_STEP, "Start what a step does anew, or try a failed step again.")
_override(OverrideName.SKIP_STEP, "Go on without a step, where that can be done without (docs/overrides.md).")
_override(OverrideName.ABORT, "End an incident and leave the node quarantined.")
_override(OverrideName.RELEASE, "End an incident and give the node back as it was.")
_override(OverrideName.ACKNOWLEDGE, "Say that you look at what waits for a human: pagers are told, nothing goes on.")


@app.command(epilog=EXIT_CODES)
def approve(
    target: TargetArgument,
    reason: ReasonOption,
    plan: Annotated[
        str, typer.Option("--plan", help="Digest of the plan that you approve; refused if it is another by now.")
    ] = "",
    by: ByOption = USER,
    act: ActOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Let an incident go past the approval it waits for, or past what guards the budget."""
    _run(_press(OverrideName.APPROVE, target, by, reason, act, output, plan=plan))


@app.command(name="extend-deadline", epilog=EXIT_CODES)
def extend_deadline(
    target: TargetArgument,
    extension: Annotated[str, typer.Option("--extension", help="How much more, as ISO 8601: PT30M; at most 24 h.")],
    reason: ReasonOption,
    by: ByOption = USER,
    act: ActOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Give the step that runs, or failed, more time."""
    _run(_press(OverrideName.EXTEND_DEADLINE, target, by, reason, act, output, extension=extension))


def main() -> None:
    """Entry point. Whatever goes wrong ends in a sentence and an exit code."""
    code: int = ExitCode.SOFTWARE
    try:
        app(standalone_mode=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else ExitCode.OK if end.code is None else ExitCode.FAILED
    except CommandError as error:
        typer.echo(str(error), err=True)
        code = error.code
    except Exception as error:
        typer.echo(
            f"A fault of ours stopped the command: {type(error).__name__}: {error}\n"
            "Please report it, with what NODEMEND_DEBUG=1 shows in addition.",
            err=True,
        )
        if os.environ.get("NODEMEND_DEBUG"):
            traceback.print_exc()
    # Every way out, for the SDK's runtime may crash in the interpreter's own tear-down.
    _end(code)


def _run(work: Coroutine[Any, Any, T]) -> T:
    from temporalio.service import RPCError

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        typer.echo("Stopped looking. Incidents go on.", err=True)
        _end(INTERRUPTED)
    except RPCError as error:
        from cli.connection import explained

        raise explained(error) from error


def _end(code: int) -> NoReturn:
    """Leave without the interpreter's own tear-down, which the SDK's runtime may crash (temporalio #300)."""
    for stream in (sys.stdout, sys.stderr):
        # The reader of a pipe may have left, as `head` does.
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(
            f"--file: {file} cannot be written: {error.strerror}.",
            "Name a file in a folder of yours.",
            ExitCode.NO_INPUT,
        ) from error


def _console() -> Any:
    from rich.console import Console

    return Console()
