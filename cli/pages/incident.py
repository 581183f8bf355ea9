"""One incident as a page: what happened, what was decided and why, what was done, by whom, and what was kept."""

from collections.abc import Iterator
from datetime import datetime

from cli.pages.html import clock, day, document, duration, facts, section, table, text
from cli.pages.timeline import timeline
from cli.views import SETTLED
from contract.incident import IncidentReport
from contract.names import Phase
from contract.trail import ActRecord, ExternalWrite
from contract.words import counted

_LINES_MAX = 10


def incident_page(report: IncidentReport, now: datetime) -> str:
    """The page. ``now``: when it was made, for an incident that still runs."""
    title = f"{report.node}: {report.outcome or report.phase}"
    return document(
        title,
        [
            "<header>",
            f"<h1>{text(report.node)}</h1>",
            f'<p><span class="state {_colour(report)}">{text(report.outcome or report.phase)}</span> '
            f"{text(report.summary)}</p>",
            "</header>",
            "<main>",
            section("What it is about", _about(report, now)),
            section("Timeline", _picture(report, now)),
            section("What was found", *_found(report)),
            section("What was decided, and why", _decided(report)),
            section("Steps", _steps(report, now)),
            section("What came of it", _facts(report)),
            section("Work that was saved", _saved(report)),
            section("What people pressed", _pressed(report)),
            section("What must be known", _notes(report)),
            section("Attempts that failed", _failed(report)),
            section("What was written outside", _writes(report), _left_out(report)),
            "</main>",
            f"<footer>Incident {text(report.incident_id)}, run {text(report.run_id)}, policy "
            f"{text(report.policy_version or 'unknown')}. Made {day(now)}. All times are UTC.</footer>",
        ],
    )


def _colour(report: IncidentReport) -> str:
    if report.outcome is None:
        return "waiting" if report.phase is Phase.NEEDS_HUMAN else "running"
    return "done" if report.outcome in SETTLED else "failed"


def _about(report: IncidentReport, now: datetime) -> str:
    identity = report.identity
    pairs = [("Cluster", text(report.cluster))]
    if identity:
        pairs += [
            ("Machine", text(identity.instance_id or identity.provider_id or "not known")),
            ("Where", text(identity.place)),
            ("Type", text(identity.instance_type or "not known")),
        ]
    pairs += [
        ("Opened", day(report.opened_at)),
        ("Closed", day(report.closed_at) if report.closed_at else "it still runs"),
        ("Took", duration((report.closed_at or now) - report.opened_at)),
        ("Mode", text(f"{report.mode or 'not decided'}{', a drill' if report.drill else ''}")),
    ]
    if report.replacement_node:
        successor = f"{report.replacement_node} ({report.replacement_instance_id or 'no known machine'})"
        pairs.append(("Replaced by", text(successor)))
    return facts(pairs)


def _picture(report: IncidentReport, now: datetime) -> str:
    picture = timeline(report, now)
    pressed = " A triangle is what somebody pressed." if report.overrides else ""
    said = f"<figcaption>Time since the incident opened.{pressed}</figcaption>"
    return f"<figure>{picture}{said}</figure>" if picture else ""


def _found(report: IncidentReport) -> Iterator[str]:
    for finding in report.findings:
        lines = "\n".join([*finding.context[-_LINES_MAX:], finding.message, *finding.context_after[:_LINES_MAX]])
        times = f", seen {counted(finding.count, 'time')}" if finding.count > 1 else ""
        yield (
            f"<p><strong>{text(finding.reason)}</strong>, {text(finding.verdict)} by rule {text(finding.rule)}, first "
            f"{day(finding.first_seen)}{times}.</p><pre>{text(lines)}</pre>"
        )
    if report.findings_total > len(report.findings):
        yield f"<p>And {report.findings_total - len(report.findings)} more.</p>"


def _decided(report: IncidentReport) -> str:
    if report.plan is None:
        return ""
    reasons = "".join(f"<li>{text(reason)}</li>" for reason in report.plan.reasons)
    return f"<p><strong>{text(report.plan.rung)}</strong></p><ul>{reasons}</ul>"


def _steps(report: IncidentReport, now: datetime) -> str:
    rows = [
        [
            text(step.step),
            f'<span class="{step.status}">{text(step.status)}</span>',
            clock(step.started_at),
            duration((step.ended_at or report.closed_at or now) - step.started_at),
            text(step.summary),
        ]
        for step in report.steps
    ]
    heads = ("Step", "State", "Began", "Took", "What it did")
    return table("Steps", heads, rows, frozenset({3})) if rows else ""


def _facts(report: IncidentReport) -> str:
    return facts((name, text(words)) for name, words in report.facts.items()) if report.facts else ""


def _saved(report: IncidentReport) -> str:
    rows = [
        [text(one.job), text(one.status), _number(one.saved_steps), _number(one.saved_accelerator_seconds),
         _number(one.lost_steps), text(one.how)]
        for one in report.saved
    ]  # fmt: skip
    heads = ("Job", "Checkpoint", "Steps saved", "Accelerator-seconds", "Steps lost", "How it is computed")
    return table("Work that was saved", heads, rows, frozenset({2, 3, 4})) if rows else ""


def _pressed(report: IncidentReport) -> str:
    rows = [
        [
            clock(one.at),
            text(one.by),
            f"<code>{text(one.name)}</code>",
            text(one.reason),
            text("yes" if one.accepted else "refused"),
            text(one.answer),
        ]
        for one in report.overrides
    ]
    return table("What people pressed", ("At", "By", "What", "Why", "Taken", "Answer"), rows) if rows else ""


def _notes(report: IncidentReport) -> str:
    return "<ul>" + "".join(f"<li>{text(note)}</li>" for note in report.notes) + "</ul>" if report.notes else ""


def _failed(report: IncidentReport) -> str:
    rows = [row for act in report.acts for row in _failures(act)]
    heads = ("Act", "Attempt", "At", "Why it failed")
    return table("Attempts that failed", heads, rows, frozenset({1})) if rows else ""


def _failures(act: ActRecord) -> Iterator[list[str]]:
    for one in act.trail.failed:
        times = f" ({one.times} in a row)" if one.times > 1 else ""
        yield [text(act.act), str(one.number), clock(one.at), text(one.error + times)]
    if act.error and act.error not in {one.error for one in act.trail.failed}:
        yield [text(act.act), "", clock(act.at), text(act.error)]


def _writes(report: IncidentReport) -> str:
    rows = [_write(act, write) for act in report.acts for write in act.trail.writes]
    heads = ("Act", "At", "Call", "Object", "Answer", "Version", "Request id")
    return table("What was written outside", heads, rows) if rows else ""


def _write(act: ActRecord, write: ExternalWrite) -> list[str]:
    times = f" × {write.times}" if write.times > 1 else ""
    return [
        text(act.act),
        clock(write.at),
        text(write.verb + times),
        text(write.object),
        text(write.status),
        text(write.version),
        f"<code>{text(write.request_id)}</code>",
    ]


def _left_out(report: IncidentReport) -> str:
    sent = sum(act.trail.writes_total for act in report.acts)
    shown = sum(write.times for act in report.acts for write in act.trail.writes)
    acts = report.acts_total - len(report.acts)
    more = [f"{counted(sent - shown, 'more write')}"] if sent > shown else []
    more += [f"{counted(acts, 'more act')}"] if acts > 0 else []
    return f"<p>And {' and '.join(more)}, which the report has no room for.</p>" if more else ""


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f}"
