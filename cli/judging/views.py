"""Judgements for people: plain text that is as wide as it has to be. Pure."""

from datetime import timedelta

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from cli.judging.foresight import Foresight
from contract.model import Message


def foresight_view(seen: Foresight) -> RenderableType:
    """What would happen, from the line to the last step."""
    facts = _facts_table()
    facts.add_row("line", escape(seen.line))
    if seen.rule:
        facts.add_row(
            "rule", f"{seen.rule} · {seen.verdict} · {escape(seen.reason)}{' · a drill' if seen.drill else ''}"
        )
    if seen.fields:
        facts.add_row("fields", escape(", ".join(f"{name}={value}" for name, value in seen.fields.items())))
    for sentence in seen.assumed:
        facts.add_row("assumed", escape(sentence))
    if seen.mode:
        facts.add_row("policy", f"mode {seen.mode}, version {seen.policy_version}")
    if seen.plan:
        facts.add_row("decided", str(seen.plan.rung))
        for name, words in _words_of(seen.plan):
            facts.add_row(name, escape(words))
    for permit in seen.permits:
        answer = "granted; limits" if permit.granted else "waits"
        facts.add_row(f"{permit.kind} permit", escape(f"{answer}: {permit.says}"))
    parts: list[RenderableType] = [Text(seen.says, style="bold"), facts]
    if seen.steps:
        table = _table("step", "deadline", "waits for", "what it does")
        for step in seen.steps:
            table.add_row(str(step.step), span(step.deadline), escape(step.gate), escape(step.does))
        parts += [Text(), table]
    if seen.pods is not None:
        table = _table("pod", "becomes", "why")
        for pod in seen.pods:
            table.add_row(escape(pod.pod), str(pod.becomes), escape(pod.why))
        parts += [Text(), table if seen.pods else Text("No pods run on it.")]
    return Group(*parts)


def span(duration: timedelta | None) -> str:
    """A deadline as people read it."""
    if duration is None:
        return ""
    seconds = round(duration.total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _words_of(plan: Message) -> list[tuple[str, str]]:
    """The plan's own words, field by field: what it gains later is shown as well."""
    shown = []
    for name, value in plan.model_dump(mode="json").items():
        if name == "rung" or value in (None, "", [], {}):
            continue
        for words in value if isinstance(value, list) else [value]:
            shown.append((name.replace("_", " "), str(words)))
    return shown


def _facts_table() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
