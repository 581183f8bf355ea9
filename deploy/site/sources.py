"""Files of the repository that pages link to, as pages of the site: it says the same wherever it is put, offline too.

In the repository a link such as ``../deploy/rbac`` opens the folder; the site has a page in its place.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = "docs"
_LINK: Final = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_LANGUAGES: Final = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".py": "python", ".tf": "hcl"}
_FOLDER: Final = "repository"


def page_of(path: Path) -> str:
    """Where the site has a file or folder of the repository, from the site's root."""
    relative = path.relative_to(ROOT).as_posix()
    if relative.startswith(f"{DOCUMENTS}/"):
        return relative.removeprefix(f"{DOCUMENTS}/")
    return f"{_FOLDER}/{relative.removesuffix('.md')}.md"


def linked(origin: Path, text: str) -> Iterator[Path]:
    """Files and folders outside the documents that a document links to."""
    for match in _LINK.finditer(text):
        target = (origin.parent / match[1]).resolve()
        if target.exists() and not target.is_relative_to(ROOT / DOCUMENTS):
            yield target


def for_the_site(origin: Path, text: str) -> str:
    """A document with its links to files of the repository turned to the site's pages."""
    here = os.path.dirname(page_of(origin))  # noqa: PTH120 - names of pages, and no files

    def turned(match: "re.Match[str]") -> str:
        target = (origin.parent / match[1]).resolve()
        if not target.exists():
            return match[0]  # mkdocs names it
        return f"]({os.path.relpath(page_of(target), here or '.')}{match[2] or ''})"

    return _LINK.sub(turned, text)


def page(path: Path) -> str:
    """A file or folder as a page."""
    if path.suffix == ".md":
        return for_the_site(path, path.read_text(encoding="utf-8"))
    files = sorted(file for file in path.iterdir() if file.suffix in _LANGUAGES) if path.is_dir() else [path]
    parts = [f"# {path.relative_to(ROOT).as_posix()}"]
    for file in files:
        heading = [f"## {file.name}"] if path.is_dir() else []
        parts += [*heading, f"````{_LANGUAGES.get(file.suffix, 'text')}\n{file.read_text(encoding='utf-8')}````"]
    return "\n\n".join(parts) + "\n"
