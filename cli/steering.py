"""Commands by which people steer: the overrides of an incident, the pauses of the fleet, and the end of it all."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import CommandError
from cli.options import USER, ActOption, ByOption, GroupOption, ReasonOption, TargetArgument
from cli.output import Output, OutputOption, print_document
from cli.process import end, reading_cluster, run
from contract.names import BudgetOrderName, ExitCode, OverrideName

if TYPE_CHECKING:
    from temporalio.client import Client


class Outside(StrEnum):
    """What `nodemend uninstall` may leave out."""

    TEMPORAL = "temporal"
    AWS = "aws"


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
    run(_press(OverrideName.APPROVE, target, by, reason, act, output, plan=plan))


def pause(
    reason: ReasonOption, by: ByOption = USER, group: GroupOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Grant no new permits, to the whole cluster or to one group. What was granted before goes on."""
    run(_tell(BudgetOrderName.PAUSE, by, reason, group, output))


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
        run(_tell(BudgetOrderName.RESUME, by, reason, group, output))
    elif group is not None:
        raise CommandError(
            "An incident and --group do not go together.",
            "Name the incident to go on with, or the group whose pause is lifted.",
            ExitCode.USAGE,
        )
    else:
        run(_press(OverrideName.RESUME, target, by, reason, act, output))


def extend_deadline(
    target: TargetArgument,
    extension: Annotated[str, typer.Option("--extension", help="How much more, as ISO 8601: PT30M; at most 24 h.")],
    reason: ReasonOption,
    by: ByOption = USER,
    act: ActOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Give the step that runs, or failed, more time."""
    run(_press(OverrideName.EXTEND_DEADLINE, target, by, reason, act, output, extension=extension))


def override(name: OverrideName, words: str) -> Callable[..., None]:
    """The command of an override that takes no more than who and why."""

    def command(
        target: TargetArgument,
        reason: ReasonOption,
        by: ByOption = USER,
        act: ActOption = "",
        output: OutputOption = Output.TABLE,
    ) -> None:
        run(_press(name, target, by, reason, act, output))

    command.__doc__ = words
    command.__name__ = name
    return command


hold = override(OverrideName.HOLD, "Stop an incident before its next step.")
retry_step = override(OverrideName.RETRY_STEP, "Start what a step does anew, or try a failed step again.")
skip_step = override(
    OverrideName.SKIP_STEP, "Go on without a step, where that can be done without (docs/overrides.md)."
)
abort = override(OverrideName.ABORT, "End an incident and leave the node quarantined.")
release = override(OverrideName.RELEASE, "End an incident and give the node back as it was.")
acknowledge = override(
    OverrideName.ACKNOWLEDGE, "Say that you look at what waits for a human: pagers are told, nothing goes on."
)


def uninstall(
    check: Annotated[
        bool, typer.Option("--check", help="Only list what is there; exit code 1 when there is any.")
    ] = False,
    without: Annotated[
        list[Outside] | None,
        typer.Option("--without", help="Leave this out: a Temporal that is gone for good, an AWS without our alarms."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Clear what Nodemend leaves on Nodes, in the cluster, in Temporal and in CloudWatch, after `helm uninstall`."""
    from cli.alarms import Alarms
    from cli.connection import cluster
    from cli.leftovers import ClusterLeftovers, Leftover
    from cli.uninstall import SPOOL_HINT, left
    from cli.uninstall import uninstall as clear
    from worker.clients import cluster_client

    omitted = set(without or ())

    async def work() -> list[Leftover]:
        name = cluster()
        leftovers = ClusterLeftovers(cluster_client(), name)
        client = None if Outside.TEMPORAL in omitted else await _temporal()
        alarms = None if Outside.AWS in omitted else Alarms(name)
        if not check:
            await clear(client, name, leftovers, alarms, lambda line: typer.echo(line, err=True))
        return await left(client, name, leftovers, alarms)

    with reading_cluster("Nodes, Leases, ConfigMaps and Jobs are read and cleared."):
        found = run(work())
    if output is not Output.TABLE:
        print_document([vars(leftover) for leftover in found], output)
    else:
        lines = [
            f"{leftover.kind} {leftover.name}" + (f": {leftover.what}" if leftover.what else "") for leftover in found
        ]
        typer.echo("\n".join(lines) or "Nothing of Nodemend is left here.")
        for part in sorted(omitted):
            typer.echo(f"Not looked at, as you said: {part}.", err=True)
        typer.echo(SPOOL_HINT, err=True)
    end(ExitCode.FAILED if found else ExitCode.OK)


async def _temporal() -> "Client":
    from cli.connection import connect

    try:
        return await connect()
    except CommandError as error:
        if error.code != ExitCode.UNAVAILABLE:
            raise
        remedy = "If it is gone for good: `--without temporal` clears the rest."
        raise CommandError(str(error), remedy, error.code) from error


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
