"""The few pieces of HTML that the pages are made of. Whatever was not written here goes through ``text``."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d1d9e0; --ground: #fff; --box: #f6f8fa;
  --done: #1a7f37; --run: #0969da; --wait: #9a6700; --bad: #cf222e; --skip: #6b7480; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --ground: #0d1117;
  --box: #151b23; --done: #3fb950; --run: #4493f8; --wait: #d29922; --bad: #f85149; --skip: #848d97; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, "Liberation Sans", sans-serif; overflow-wrap: anywhere; }
strong, code, span { unicode-bidi: isolate; } h1, p, th, td, dd, li, pre { unicode-bidi: plaintext; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
.soft, figcaption, footer { color: var(--soft); }
.state { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .7rem;
  font-weight: 600; }
.done { color: var(--done); } .running { color: var(--run); } .waiting { color: var(--wait); }
.failed { color: var(--bad); } .skipped, .shadowed { color: var(--skip); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.25rem; margin: .5rem 0; }
dt { font-weight: 600; } dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; } time { white-space: nowrap; }
th { font-weight: 600; } tbody th { overflow-wrap: anywhere; min-width: 10rem; }
.number { text-align: right; white-space: nowrap; } thead th { white-space: nowrap; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; margin: .5rem 0;
  white-space: pre-wrap; font: 13px/1.45 ui-monospace, "Liberation Mono", monospace; }
figure { margin: .5rem 0; } svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font: 12px system-ui, "Liberation Sans", sans-serif; } svg .soft { fill: var(--soft); }
svg .grid { stroke: var(--line); } svg .bar { fill: currentColor; } svg .press { fill: var(--wait); }
footer { margin-top: 2.5rem; font-size: .85rem; }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --ground: #fff; --box: #fff;
  --done: #1a7f37; --run: #0969da; --wait: #7d4e00; --bad: #b00020; --skip: #666; }
  body { max-width: none; padding: 0; font-size: 11pt; } h2 { break-after: avoid; }
  tr, figure, pre, dd { break-inside: avoid; } thead { display: table-header-group; }
  .bar { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .scroll { overflow: visible; } }
""".strip()


def text(value: object) -> str:
    """Text as text: a kernel line is written by a machine that failed, or by whoever can write there."""
    return escape(str(value), quote=True)


def document(title: str, body: Iterable[str]) -> str:
    """A whole page. The policy in it forbids what a mistake here could let in: scripts, and anything from elsewhere."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[int] = frozenset()
) -> str:
    """A table whose cells are HTML already. The first cell of a row names it. ``numbers``: columns set to the right."""
    sides = ["number" if index in numbers else "" for index in range(len(heads))]
    # A column of bars has no name: an empty header would be read out as one.
    head = "".join(
        f'<th scope="col"{_class(side)}>{text(name)}</th>' if name else "<td></td>"
        for name, side in zip(heads, sides, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(
            f'<th scope="row"{_class(sides[index])}>{cell}</th>'
            if index == 0
            else f"<td{_class(sides[index])}>{cell}</td>"
            for index, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    ]
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f'<table aria-label="{text(caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what is so; the second is HTML already."""
    return "<dl>" + "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs) + "</dl>"


def section(title: str, *parts: str) -> str:
    """A part of the page under a heading; nothing where there is nothing to say."""
    told = [part for part in parts if part]
    return "\n".join([f"<section><h2>{text(title)}</h2>", *told, "</section>"]) if told else ""


def clock(moment: datetime | None) -> str:
    """A moment that machines can read, too."""
    if moment is None:
        return ""
    return f'<time datetime="{moment.isoformat()}">{moment:%H:%M:%S}</time>'


def day(moment: datetime | None) -> str:
    """The same with its date."""
    if moment is None:
        return ""
    return f'<time datetime="{moment.isoformat()}">{moment:%Y-%m-%d %H:%M:%S} UTC</time>'


def minute(moment: datetime) -> str:
    """The same, for lists."""
    return f'<time datetime="{moment.isoformat()}">{moment:%Y-%m-%d %H:%M}</time>'


def duration(span: timedelta) -> str:
    """As people read it."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
