"""Commands that show: incidents, their reports, the budget, and where the Temporal UI has them. They change nothing."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CommandError
from cli.options import TargetArgument
from cli.output import Output, OutputOption, plain, print_document
from cli.process import console, end, reading_cluster, run, write_file
from contract.names import ExitCode


def status(
    everything: Annotated[bool, typer.Option("--all", help="Closed incidents too.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List open incidents, and who waits for a permit."""

    async def ask() -> None:
        from cli.connection import cluster, connect
        from cli.incidents import listed, read_budget
        from cli.looking import as_of_now
        from cli.views import status_view

        name = cluster()
        client = await connect()
        # Side by side: without workers the budget takes seconds not to answer.
        asking = asyncio.create_task(read_budget(client, name), name="ask-budget")
        found = await as_of_now([one async for one in listed(client, name, open_only=not everything)])
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
            console().print(status_view(found, budget))

    run(ask())


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

    end(run(follow()))


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

        run(write_fleet_page(records, since, lambda page: write_file("--html", html, page)))
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
            write_file("--file", file, seen.report.model_dump_json(indent=2) + "\n")
        if html:
            from cli.reporting import incident_page_now

            write_file("--html", html, incident_page_now(seen.report))
        if output is not Output.TABLE:
            print_document(plain(seen.report), output)
        else:
            console().print(report_view(seen.report, page_of(client, handle.id)))
        if seen.trouble:
            typer.echo(seen.trouble, err=True)

    run(show())


def history(
    key: Annotated[str, typer.Argument(help="A node, an instance, a host or a serial number; all without.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of the workers.", envvar="NODEMEND_NAMESPACE")
    ] = "default",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show machines that failed, as the cluster remembers them across incidents. Needs the cluster (KUBECONFIG)."""
    from cli.history import history_view, remembered

    with reading_cluster("Check KUBECONFIG and your rights on ConfigMaps."):
        machines = remembered(key, namespace)
    if output is not Output.TABLE:
        print_document([plain(machine) for machine in machines], output)
    else:
        console().print(history_view(machines, key, namespace))


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

    run(show())


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
            console().print(budget_view(state, page_of(client, budget_id(name))))

    run(show())
