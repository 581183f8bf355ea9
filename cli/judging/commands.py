"""`nodemend plan`, `replay` and `scorecard`, as the command line mounts them. Each loads what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CommandError
from cli.output import Output, OutputOption, plain, print_document
from contract.corroboration import Corroboration
from contract.names import ExitCode
from contract.words import counted

PolicyOption = Annotated[
    Path | None, typer.Option("--policy", help="Policy file; left out: what holds without one (shadow).")
]
RulesOption = Annotated[
    Path | None,
    typer.Option(
        "--rules", help="Folder with rules of your own (*.yaml); they come first.", envvar="NODEMEND_RULES_DIR"
    ),
]
GroupFact = Annotated[str, typer.Option("--group", help="Auto Scaling group, NodePool or Machine set of the node.")]
InstanceFact = Annotated[str, typer.Option("--instance-id", help="EC2 instance id of the node.")]
TriedFact = Annotated[
    list[str] | None,
    typer.Option("--tried", help="A rung that was tried on it lately: reset-device, reboot. May be given twice."),
]
WitnessFact = Annotated[
    list[Corroboration] | None,
    typer.Option("--witness", help="A second witness that is taken to confirm a doubtful line. May be given twice."),
]
SizeFact = Annotated[int, typer.Option("--group-size", min=1, help="Nodes of its group; the others are healthy.")]


def plan(
    node: Annotated[str, typer.Option("--node", help="Name of the node.")],
    line: Annotated[str, typer.Option("--line", help="A kernel message, with or without a prefix.")],
    policy: PolicyOption = None,
    rules: RulesOption = None,
    group: GroupFact = "",
    nodegroup: Annotated[str, typer.Option("--nodegroup", help="EKS managed node group of the node.")] = "",
    instance_id: InstanceFact = "",
    instance_type: Annotated[str, typer.Option("--instance-type", help="Instance type of the node.")] = "",
    tried: TriedFact = None,
    witness: WitnessFact = None,
    pods: Annotated[
        Path | None, typer.Option("--pods", help="Pods of the node, as `kubectl get pods -o json` (or yaml) has them.")
    ] = None,
    group_size: SizeFact = 16,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say what would happen to a node for one kernel line, without touching anything.

    With KUBECONFIG set, the node's own facts are read from its cluster and AWS (read only); without, the options say
    them, and what they do not say is assumed and named. Ends with 0 when an incident would begin, with 1 when not.
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from cli.judging.asking import Asked, judge
    from cli.judging.facts import Given
    from cli.judging.views import foresight_view
    from cli.policy_document import read_policy

    given = Given(node, group, nodegroup, instance_id, instance_type, tuple(tried or ()), tuple(witness or ()))
    asked = Asked(given, line, rules, pods, group_size, datetime.now(UTC))
    seen = judge(asked, read_policy(policy))
    if output is Output.TABLE:
        Console().print(foresight_view(seen))
    else:
        print_document(plain(seen), output)
    if seen.plan is None:
        raise typer.Exit(ExitCode.FAILED)


def replay(
    file: Annotated[str, typer.Argument(help="Of dmesg, /dev/kmsg or journalctl (-k, -o json); - for stdin.")],
    policy: PolicyOption = None,
    rules: RulesOption = None,
    node: Annotated[str, typer.Option("--node", help="What the node is called in the answer.")] = "the-node",
    group: GroupFact = "",
    instance_id: InstanceFact = "",
    tried: TriedFact = None,
    witness: WitnessFact = None,
    group_size: SizeFact = 16,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the detector and the decisions over a captured log, at its own time: what would have been done, and when?

    Ends with 0 once the whole capture was read, whatever was found in it.
    """
    from rich.console import Console

    from cli.judging.asking import known_rules
    from cli.judging.facts import Given, from_options
    from cli.judging.replay import replay as play
    from cli.judging.replay_view import replay_view
    from cli.policy_document import read_policy

    facts = from_options(Given(node, group, "", instance_id, "", tuple(tried or ()), tuple(witness or ())))
    played = play(file, known_rules(rules), facts, read_policy(policy), group_size)
    if output is Output.TABLE:
        Console().print(replay_view(played))
    else:
        print_document(plain(played), output)


def scorecard(
    folder: Annotated[Path | None, typer.Argument(help="Folder of records (a worker's NODEMEND_RECORD_DIR).")] = None,
    temporal: Annotated[bool, typer.Option("--temporal", help="Read Temporal's closed incidents instead.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set shadow decisions against what really happened to those nodes: what has earned `mode: act`?"""
    from rich.console import Console

    from cli.judging.records import from_folder, from_temporal
    from cli.judging.scorecard_view import scorecard_view
    from cli.judging.scoring import score

    if (folder is None) is not temporal:
        raise CommandError(
            "A folder of records, or --temporal: one of them is read.",
            "Name a worker's NODEMEND_RECORD_DIR, or give --temporal alone.",
            ExitCode.USAGE,
        )
    wrong: list[str] = []
    if folder is None:
        card = score(from_temporal())
    else:
        reports, wrong = from_folder(folder)
        card = score(reports)
    if wrong:
        files = counted(len(wrong), "file is no report", "files are no reports")
        note = f"{files} that this version reads, e.g. {wrong[0]}."
        card = card.model_copy(update={"notes": (*card.notes, note)})
    if output is Output.TABLE:
        Console().print(scorecard_view(card))
    else:
        print_document(plain(card), output)
