"""`nodemend rules`: what the detector makes of a line, which rules there are, and whether one's own can be used.

Needs neither Temporal nor a cluster.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from cli.errors import CommandError
from contract.names import ExitCode
from contract.words import counted
from detector.catalogue import BUILT_IN, CatalogueError, RuleDocument, catalogue, load_rules
from detector.classify import BENIGN, LineError
from detector.classify import classify as classified
from detector.npd import NpdError, convert

app = typer.Typer(no_args_is_help=True, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})

RulesOption = Annotated[
    Path | None,
    typer.Option(
        "--rules", help="Folder with rules of your own (*.yaml); they come first.", envvar="NODEMEND_RULES_DIR"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON for programs, instead of a table for people.")]


@app.command("list")
def list_rules(rules: RulesOption = None, as_json: JsonOption = False) -> None:
    """List the rules in the order in which they are tried."""
    found = _load(rules)
    if as_json:
        typer.echo(json.dumps([rule.model_dump(mode="json") for rule in found], indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("RULE", "VERDICT", "COMPONENT", "DATA", "ENDS WITH", "REASON"):
        table.add_column(title, overflow="fold")
    for rule in found:
        table.add_row(rule.id, rule.verdict, rule.component, rule.data, rule.evidence_end, rule.reason)
    Console().print(table)
    typer.echo(f"{counted(len(found), 'rule')}. `nodemend rules show RULE` says all of one.")


@app.command()
def show(rule: Annotated[str, typer.Argument(help="A rule's id.")], rules: RulesOption = None) -> None:
    """Show one rule as it is written, with its source and its samples."""
    for document in _load(rules):
        if document.id == rule:
            typer.echo(
                yaml.safe_dump({"rules": [document.model_dump(mode="json")]}, sort_keys=False, width=110), nl=False
            )
            return
    raise CommandError(f"There is no rule {rule!r}.", "See `nodemend rules list`.", ExitCode.NO_INPUT)


@app.command()
def check(folder: Annotated[Path, typer.Argument(help="Folder with rules of your own (*.yaml).")]) -> None:
    """Check your rules beside the built-in ones: form, patterns, and that the samples are judged as they say."""
    if not folder.is_dir():
        raise CommandError(f"{folder} is no folder.", "Give the folder that holds your *.yaml.", ExitCode.NO_INPUT)
    if not any(folder.glob("*.yaml")):
        raise CommandError(f"{folder} holds no *.yaml.", "Give the folder that holds your rules.", ExitCode.NO_INPUT)
    own = sum(1 for rule in _load(folder)) - len(_load(None))
    taken = [(rule.id, caught) for rule in load_rules([folder]) if (caught := _caught_before(rule, folder))]
    if taken:
        rule_id, (line, by) = taken[0]
        raise CommandError(
            f"{folder}: the sample {line!r} of rule {rule_id} is judged by rule {by}, which comes before it.",
            f"Put {rule_id} before {by}, or make {by} narrower.",
            ExitCode.DATA,
        )
    typer.echo(f"{counted(own, 'rule')} of your own can be used, before {len(_load(None))} built-in ones.")


@app.command("test")
def judge_line(
    line: Annotated[str, typer.Argument(help="A kernel message, with or without a prefix.")],
    rules: RulesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the detector makes of one line."""
    found = _catalogue(rules).match(line)
    document: dict[str, Any] = {"verdict": BENIGN, "rule": None, "reason": None, "signature": None, "fields": {}}
    if found is not None and found.rule.verdict != BENIGN:
        document = {
            "verdict": found.rule.verdict,
            "rule": found.rule.id,
            "reason": found.reason,
            "signature": found.signature,
            "fields": found.fields,
        }
    if as_json:
        typer.echo(json.dumps(document, ensure_ascii=False))
    elif document["rule"] is None:
        typer.echo("benign: no rule takes it for a fault.")
    else:
        typer.echo(f"{document['verdict']}: rule {document['rule']}, reason {document['reason']}")
        for name, value in document["fields"].items():
            typer.echo(f"  {name} = {value}")


@app.command()
def classify(
    file: Annotated[str, typer.Argument(metavar="FILE.jsonl", help="JSON objects with `id` and `text`; - for stdin.")],
    output: Annotated[str, typer.Option("--output", "-o", help="json is the only form: one line for each.")] = "json",
    rules: RulesOption = None,
) -> None:
    """Say what the detector makes of many lines: `id`, `verdict`, `rule` and `fields` for each, as JSON lines."""
    if output != "json":
        raise CommandError(f"--output: {output!r} is no form of it.", "Use json.", ExitCode.USAGE)
    known = _catalogue(rules)
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror}.", "Give a file of JSON lines, or -.", ExitCode.NO_INPUT
        ) from error
    try:
        # Not splitlines: it cuts at characters that may stand within a JSON string.
        for found in classified(text.split("\n"), known):
            typer.echo(json.dumps(found, ensure_ascii=False))
    except LineError as error:
        raise CommandError(
            f"{file}: {error}.", "Give one JSON object to a line, with `id` and `text`.", ExitCode.DATA
        ) from error


@app.command("import-npd")
def import_npd(
    file: Annotated[Path, typer.Argument(help="A system log monitor's configuration of the node problem detector.")],
) -> None:
    """Print rules made of a node problem detector's JSON: judge each, and put real lines in place of the samples."""
    try:
        rules = convert(json.loads(file.read_text(encoding="utf-8")), file.name)
    except OSError as error:
        raise CommandError(
            f"{file} cannot be read: {error.strerror}.", "Give a kernel-monitor.json.", ExitCode.NO_INPUT
        ) from error
    except (ValueError, NpdError) as error:
        raise CommandError(f"{file}: {error}", "Mend it, or write the rules by hand.", ExitCode.DATA) from error
    typer.echo(yaml.safe_dump({"rules": rules}, sort_keys=False, width=1000), nl=False)


def _load(folder: Path | None) -> list[RuleDocument]:
    try:
        return load_rules([BUILT_IN, *([folder] if folder else [])])
    except CatalogueError as error:
        raise CommandError(str(error), "Nothing of it is used until it is mended.", ExitCode.DATA) from error


def _catalogue(folder: Path | None) -> Any:
    _load(folder)
    return catalogue([BUILT_IN, *([folder] if folder else [])])


def _caught_before(rule: RuleDocument, folder: Path) -> tuple[str, str] | None:
    """A sample of a rule that another rule takes first, and which one."""
    known = _catalogue(folder)
    for line in rule.matches:
        found = known.match(line)
        if found is None or found.rule.id != rule.id:
            return line, found.rule.id if found else "none"
    return None
