"""`nodemend policy`: is this file a policy, and what does it allow."""

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml

from cli.errors import CommandError
from cli.policy_document import read_policy
from contract.names import ExitCode
from contract.words import counted

app = typer.Typer(no_args_is_help=True, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def check(file: Annotated[Path, typer.Argument(help="Policy file.")]) -> None:
    """Say whether a worker would take this policy; name each wrong line where it would not."""
    policy = read_policy(file)
    acting = [name for name, group in policy.groups.items() if group.mode == "act"]
    typer.echo(
        f"{file} is valid: version {policy.version}; by default {policy.default.mode}, "
        f"{counted(len(policy.groups), 'group')} with an entry, acting on {', '.join(acting) or 'none of them'}."
    )


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="Policy file; left out: what holds without one.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="What holds for this node group alone.")] = None,
    effective: Annotated[bool, typer.Option("--effective", help="Defaults too, not only what was written.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for programs, instead of YAML.")] = False,
) -> None:
    """Show a policy as it is understood."""
    policy = read_policy(file)
    if group is not None and group not in policy.groups and not effective:
        raise CommandError(
            f"{file or 'The default policy'} has no entry for group {group!r}: the default holds for it.",
            "Add --effective to see what that is.",
            ExitCode.NO_INPUT,
        )
    chosen = policy if group is None else policy.for_node(group, None)
    shown = chosen.model_dump(mode="json", exclude_unset=not effective)
    if as_json:
        typer.echo(json.dumps({"version": policy.version, "policy": shown}, indent=2, ensure_ascii=False))
    else:
        typer.echo(
            f"# version {policy.version}\n" + yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), nl=False
        )
