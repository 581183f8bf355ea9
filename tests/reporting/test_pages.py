"""The pages: complete in themselves, readable without eyes and without colour, and no text becomes markup."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.pages.fleet import fleet_page
from cli.pages.html import STYLE
from cli.pages.incident import incident_page
from contract.incident import StepStatus
from contract.names import Outcome, Phase
from tests.reporting.sample import BEGAN, NODE, closed
from tests.runbook.world import finding

NOW = BEGAN + timedelta(hours=1)
_VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a browser would make of it, as far as these tests care."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def pages(text: str = "") -> list[str]:
    """Both pages, with a text in each place where somebody else's text stands."""
    report = closed() if not text else hostile(text)
    return [incident_page(report, NOW), fleet_page([report], BEGAN, NOW)]


def hostile(text: str) -> Any:
    usual = closed()
    return closed(
        node=text,
        summary=text,
        findings=(finding(message=text, reason=text, context=(text,)),),
        steps=tuple(step.model_copy(update={"summary": text}) for step in usual.steps),
        overrides=tuple(one.model_copy(update={"by": text, "reason": text}) for one in usual.overrides),
        facts={text: text},
        notes=(text,),
        saved=tuple(one.model_copy(update={"job": text, "how": text}) for one in usual.saved),
        acts=tuple(
            act.model_copy(
                update={
                    "trail": act.trail.model_copy(
                        update={"writes": tuple(w.model_copy(update={"object": text}) for w in act.trail.writes)}
                    )
                }
            )
            for act in usual.acts
        ),
    )


def shape(page: Page) -> list[tuple[str, list[str]]]:
    return [(tag, sorted(attributes)) for tag, attributes in page.tags]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</pre></title></svg></style><iframe src=//evil.example>",
        "' onmouseover='alert(1)",
        "&lt;b&gt; &#60;b&#62;",
    ],
)
def test_hostile_text_is_text(text: str) -> None:
    for plain, attacked in zip(pages("text"), pages(text), strict=True):
        page = Page(attacked)
        assert shape(page) == shape(Page(plain))
        assert text in page.text


@given(text=st.text(min_size=1, max_size=40).filter(lambda text: text.strip() and "\r" not in text))
def test_no_text_changes_the_shape_of_a_page(text: str) -> None:
    for plain, attacked in zip(pages("text"), pages(text), strict=True):
        assert shape(Page(attacked)) == shape(Page(plain))


def test_a_page_is_complete_in_itself_and_has_no_script() -> None:
    for html in pages():
        page = Page(html)
        assert not page.open
        assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
        assert not [name for _, attributes in page.tags for name in attributes if name in ("src", "href", "onload")]
        assert "url(" not in html
        assert "@import" not in html
        assert "default-src 'none'" in str(page.named("meta"))


def test_a_screen_reader_is_told_the_language_the_headings_and_what_a_cell_is_about() -> None:
    for html in pages():
        page = Page(html)
        assert page.named("html") == [{"lang": "en"}]
        assert len(page.named("h1")) == 1
        assert len(page.named("main")) == 1
        assert all(head.get("scope") in ("col", "row") for head in page.named("th"))
        assert all(table.get("aria-label") for table in page.named("table")), "it is in the list of tables by its name"
        # A picture has a name and words, or is passed by because the number stands beside it.
        for picture in page.named("svg"):
            assert picture.get("aria-hidden") or (picture["role"] == "img" and picture["aria-labelledby"])


def test_the_timeline_says_in_words_what_it_shows() -> None:
    page = Page(incident_page(closed(), NOW))
    ids = {attributes.get("id") for _, attributes in page.tags}
    (picture,) = page.named("svg")
    assert set(str(picture["aria-labelledby"]).split()) <= ids
    assert "12 steps in 13 min 32 s. The longest is await-replacement with 4 min 24 s." in page.text


def test_the_page_has_who_pressed_what_was_written_and_what_is_left_out() -> None:
    text = Page(incident_page(closed(), NOW)).text
    for told in (NODE, "ada", "the checkpoint is large", "f3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9", "48121", "× 14"):
        assert told in text
    assert "MaxRetryError" in text
    assert "And 8 more writes, which the report has no room for." in text


def test_an_incident_that_runs_has_a_page_too() -> None:
    steps = tuple(
        step.model_copy(update={"ended_at": None, "status": StepStatus.FAILED}) for step in closed().steps[-1:]
    )
    running = closed(outcome=None, closed_at=None, phase=Phase.NEEDS_HUMAN, steps=steps)
    assert "needs-human" in Page(incident_page(running, NOW)).text
    assert "it still runs" in Page(incident_page(running, NOW)).text


def test_the_fleet_page_counts_by_cause_and_adds_up_what_was_saved() -> None:
    other = closed(node="b", outcome=Outcome.VETOED, findings=(finding(reason="XID79"),), saved=())
    page = Page(fleet_page([closed(), closed(node="a"), other], None, NOW, left_out=1))
    text = re.sub(r"\s+", " ", page.text)
    assert "2 replaced, 1 vetoed" in text
    assert "Steps saved824" in text
    assert "Accelerator-hours saved51.8" in text
    assert "1 record could not be read" in text


def test_a_fleet_without_incidents_says_so() -> None:
    assert "There was none." in Page(fleet_page([], None, NOW)).text


def test_each_text_has_the_contrast_that_wcag_asks_for_in_light_dark_and_print() -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    grounds = [dict(re.findall(r"--(\w+): (#\w+)", rules)) for rules in re.findall(r":root \{([^}]+)\}", STYLE)]
    assert len(grounds) == 3
    for colours in grounds:
        for name in ("ink", "soft", "done", "run", "wait", "bad", "skip"):
            for ground in ("ground", "box") if name == "ink" else ("ground",):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, colours)


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' relative luminance, as WCAG defines both."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_state_that_is_not_the_usual_one_is_told_in_words_beside_its_bar() -> None:
    """WCAG 2.2, 1.4.1: not by colour alone."""
    failed = tuple(step.model_copy(update={"status": StepStatus.FAILED}) for step in closed().steps[-1:])
    picture = incident_page(closed(steps=failed), NOW).partition("<svg")[2].partition("</svg>")[0]
    assert ">failed, 1 min 7 s</text>" in picture


def test_no_header_of_a_table_is_empty() -> None:
    for html in pages():
        assert not re.search(r"<th[^>]*></th>", html)
