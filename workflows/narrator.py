"""What the Temporal UI shows as current details: Markdown from the report. Pure, with golden files.

Facts of the UI that shape it: tables render without borders, the whole text travels in a URL (so it stays under
4 kB), and kernel text is not to be trusted with markup, so it stands in code blocks only.
"""

import json
from datetime import datetime
from typing import Final

from contract import price
from contract.incident import IncidentReport, StepRecord, StepStatus
from contract.names import OverrideName, Phase, Step
from contract.words import counted
from workflows.ahead import ahead
from workflows.override_table import EXAMPLE, EXTENSION_EXAMPLE, Stand, allowed

DETAILS_MAX: Final = 4000
_LINE_MAX: Final = 240
_ASKS_MAX: Final = 1000
_EVIDENCE_MAX: Final = 300

_MARKS: Final = {
    StepStatus.RUNNING: "now",
    StepStatus.WAITING: "waits",
    StepStatus.DONE: "done",
    StepStatus.SHADOWED: "shadow",
    StepStatus.SKIPPED: "skipped",
    StepStatus.FAILED: "failed",
}


def narrate(report: IncidentReport, stand: Stand, step: Step | None) -> str:
    """The incident in Markdown, at most 4,000 characters; ``step`` is the one that overrides are about."""
    sections = [
        _headline(report),
        _machine(report),
        _decision(report),
        _gate(report, stand),
        _steps(report),
        _can(stand, step),
        _evidence(report),
    ]
    return "\n\n".join(section for section in sections if section)[:DETAILS_MAX]


def _headline(report: IncidentReport) -> str:
    if report.outcome:
        return f"**{report.outcome}** · closed {_clock(report.closed_at)}\n\n{_plain(report.summary)}"
    word = {Phase.NEEDS_HUMAN: "Needs a human", Phase.QUEUED: "Starting", Phase.ADMITTED: "At work"}[report.phase]
    current = _current(report)
    since = f" · {current.step} since {_clock(current.started_at)}" if current else ""
    again = f" · asked again {counted(report.asked_again, 'time')}" if report.asked_again else ""
    # Whoever is asked needs the whole sentence: it ends with what to type.
    most = _ASKS_MAX if report.phase is Phase.NEEDS_HUMAN else _LINE_MAX
    return f"**{word}**{since}{again}\n\n{_plain(report.summary, most)}"


def _machine(report: IncidentReport) -> str:
    identity = report.identity
    if identity is None:
        return f"Node `{report.node}`, not identified yet."
    machine = f"Node `{identity.node}` is `{identity.instance_id or identity.provider_id or 'no known machine'}`"
    mode = f", mode `{report.mode}` (policy `{report.policy_version}`)" if report.mode else ""
    return f"{machine} in {identity.place}{mode}{', a drill' if report.drill else ''}."


def _decision(report: IncidentReport) -> str:
    if report.plan is None:
        return ""
    plan = report.plan
    lines = [f"### Decision: {plan.rung}, confidence {plan.confidence}"]
    lines += [f"- {_plain(reason)}" for reason in plan.reasons]
    weighed = (("For", plan.evidence_for), ("Against", plan.evidence_against), ("Would change it", plan.would_change))
    lines += [f"- {name}: {_plain(' '.join(said))}" for name, said in weighed if said]
    return "\n".join(lines)


def _gate(report: IncidentReport, stand: Stand) -> str:
    """What is to be approved, and what that costs, whole: the summary is cut short."""
    if stand is not Stand.AT_GATE or not report.gates:
        return ""
    gate = report.gates[-1]
    given = f": {', '.join(gate.approved_by)}" if gate.approved_by else ""
    lines = [
        f"### To approve: plan `{gate.plan}` ({len(gate.approved_by)} of {gate.approvals}{given})",
        f"`{json.dumps({'by': 'you', 'reason': 'why', 'plan': gate.plan})}`",
    ]
    if gate.price:
        lines += [f"What it costs, as of {_clock(gate.price.at)}:", ""]
        lines += [f"- {_plain(line)}" for line in price.lines(gate.price)]
    return "\n".join(lines)


def _steps(report: IncidentReport) -> str:
    if not report.steps:
        return ""
    lines = [
        f"- `{_clock(step.ended_at or step.started_at)}` {step.step}: {_MARKS[step.status]}"
        + (f", {_plain(step.summary)}" if step.summary else "")
        for step in report.steps
    ]
    return "\n".join(["### Steps", *lines, *_next(report)])


def _next(report: IncidentReport) -> list[str]:
    if report.outcome:
        return []
    latest = _current(report) or max(report.steps, key=lambda step: step.started_at)
    # What is done is not done again when a repair did not help and the next is tried.
    done = {step.step for step in report.steps if step.status is StepStatus.DONE}
    rung = report.plan.rung if report.plan else None
    coming = [one for one in ahead(latest.step, rung) if one not in done]
    return ["", f"Next: {', '.join(coming)}."] if coming else []


def _can(stand: Stand, step: Step | None) -> str:
    offers = allowed(stand, step)
    if not offers:
        return ""
    lines = [f"- `{name}` {what}" for name, what in offers.items()]
    arguments = [f"Argument: `{EXAMPLE}`"]
    if OverrideName.EXTEND_DEADLINE in offers:
        arguments.append(f"Of `{OverrideName.EXTEND_DEADLINE}`: `{EXTENSION_EXAMPLE}`")
    return "\n".join(["### You can send, as update or signal", *lines, "", "  \n".join(arguments)])


def _evidence(report: IncidentReport) -> str:
    if not report.findings:
        return ""
    finding = report.findings[0]
    text = finding.message[:_EVIDENCE_MAX].replace("```", "'''")
    more = f"\n\nand {report.findings_total - 1} more." if report.findings_total > 1 else ""
    return f"### Evidence\n```\n{text}\n```{more}"


def _current(report: IncidentReport) -> StepRecord | None:
    running = [step for step in report.steps if step.ended_at is None]
    return running[-1] if running else None


def _plain(text: str, most: int = _LINE_MAX) -> str:
    plain = text.replace("<", "‹").replace(">", "›").replace("\n", " ")
    if len(plain) <= most:
        return plain
    # Cut between sentences, else between words, and never within what is meant to be copied.
    kept = plain[: most - 1]
    kept = kept[: kept.rfind(". ") + 1] or kept[: kept.rfind(" ")] or kept
    return (kept.rpartition("`")[0].rstrip() if kept.count("`") % 2 else kept) + "…"


def _clock(moment: datetime | None) -> str:
    return moment.strftime("%H:%M:%S") if moment else ""
