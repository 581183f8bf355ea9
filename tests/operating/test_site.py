"""The documents as a site: built without a warning, no link leads nowhere, and nothing is fetched from elsewhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from contract.policy import BudgetPolicy, GroupPolicy
from deploy.site import policy_fields

ROOT = Path(__file__).parents[2]
ADDRESSES = {"a": "href", "link": "href", "script": "src", "img": "src", "iframe": "src"}


class Page(HTMLParser):
    """What a page links to and loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        address = values.get(ADDRESSES.get(tag, ""))
        if address:
            (self.links if tag == "a" else self.loads).append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


@pytest.mark.thorough
def test_every_document_is_a_page(site: Path) -> None:
    for document in (ROOT / "docs").rglob("*.md"):
        name = document.relative_to(ROOT / "docs")
        page = name.with_name("index.html") if name.name == "README.md" else name.with_suffix(".html")
        assert (site / page).exists()


@pytest.mark.thorough
def test_links_lead_to_pages_and_headings_that_there_are(pages: dict[Path, Page]) -> None:
    wrong = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # served from wherever it was asked for
        for link in page.links + page.loads:
            address, _, anchor = link.partition("#")
            if "://" in address or address.startswith("mailto:"):
                continue
            target = (path.parent / address).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in pages[target].anchors):
                wrong.append(f"{path.name}: {link}")
    assert not wrong


@pytest.mark.thorough
def test_nothing_is_fetched_from_elsewhere(pages: dict[Path, Page], site: Path) -> None:
    assert not [address for page in pages.values() for address in page.loads if "://" in address or address[:2] == "//"]
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert "url(http" not in styles
    assert "@import" not in styles


@pytest.mark.parametrize("model", [GroupPolicy, BudgetPolicy])
def test_policy_reference_has_every_field_of_the_models(model: type[GroupPolicy] | type[BudgetPolicy]) -> None:
    page = policy_fields.document()
    assert all(f"| `{field}` |" in page for field in model.model_fields)
