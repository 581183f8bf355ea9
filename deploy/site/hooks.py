"""What mkdocs calls while it builds: pages that stand in no file, and links that lead into the repository."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from deploy.site import policy_fields
from deploy.site.sources import DOCUMENTS, ROOT, for_the_site, linked, page, page_of


def on_files(files: Any, config: Any) -> Any:
    """Add the policy's fields, and each file of the repository that a page links to."""
    files.append(File.generated(config, "policy-fields.md", content=policy_fields.document()))
    found: dict[Path, None] = {}
    for file in files.documentation_pages():
        if file.abs_src_path:
            origin = Path(file.abs_src_path)
            found.update(dict.fromkeys(linked(origin, origin.read_text(encoding="utf-8"))))
    open_ends = list(found)
    while open_ends:
        target = open_ends.pop()
        if target.suffix == ".md":
            further = [path for path in linked(target, target.read_text(encoding="utf-8")) if path not in found]
            found.update(dict.fromkeys(further))
            open_ends += further
    for target in found:
        files.append(File.generated(config, page_of(target), content=page(target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the documents; generated pages have theirs turned."""
    source = page.file.abs_src_path
    return (
        for_the_site(Path(source), markdown) if source and Path(source).is_relative_to(ROOT / DOCUMENTS) else markdown
    )
