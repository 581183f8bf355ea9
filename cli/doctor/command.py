"""The command. What it needs is imported when it runs, so that ``--help`` answers at once."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.output import Output, OutputOption, print_document
from contract.names import ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cli.doctor.findings import Finding

_STYLES: Final = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def doctor(
    policy: Annotated[
        Path | None, typer.Option("--policy", help="Policy file; else the ConfigMap of the workers.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Kubernetes namespace of Nodemend.")] = "nodemend",
    output: OutputOption = Output.TABLE,
) -> None:
    """Look at a live installation and say what keeps it from repairing; exit code 1 when something does.

    Reads Temporal (TEMPORAL_*), the cluster (KUBECONFIG) and AWS (AWS_REGION and credentials), and changes nothing.
    """
    from cli.doctor.findings import Level
    from cli.doctor.look import examine
    from cli.policy_document import read_text

    given = (str(policy), read_text(policy)) if policy else None
    found = asyncio.run(examine(given, namespace))
    if output is not Output.TABLE:
        print_document([vars(one) for one in found], output)
    else:
        from rich.console import Console

        Console().print(_view(found))
    raise typer.Exit(ExitCode.FAILED if any(one.level is Level.WRONG for one in found) else ExitCode.OK)


def _view(found: "list[Finding]") -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    lines: list[Text] = []
    for one in found:
        lines.append(Text.assemble((f"{one.level:<6}", _STYLES[one.level]), (f"{one.about}: ", "bold"), one.says))
        lines += [Text(f"      {text}") for text in (one.means, one.mend and f"→ {one.mend}") if text]
    return Group(*lines)
