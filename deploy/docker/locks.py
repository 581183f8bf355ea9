"""What goes into each image: the part of requirements.lock that it needs, with the same versions and hashes.

    python -m deploy.docker.locks

The lock of the whole project holds the tools of developers too, and an image should hold none. Run it in the
project's own environment (``make lock`` does), since what needs what is read from what is installed there.
"""

import re
from importlib.metadata import requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path(__file__).parent
IMAGES: Final = {
    "detector": ("temporalio", "kubernetes", "pydantic", "pydantic-settings", "pyyaml"),
    "worker": tuple(
        Requirement(text).name
        for text in requires("nodemend") or []
        if (marker := Requirement(text).marker) is None or marker.evaluate({"extra": "otlp"})
    ),
}
"""What each image's programs import."""
_LINUX: Final = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
_HEAD: Final = "# Written by `python -m deploy.docker.locks` from requirements.lock; do not edit.\n"


def lock_of(image: str) -> str:
    """The lock of one image."""
    blocks, wanted = _blocks(), _closure(IMAGES[image])
    return _HEAD + "".join(blocks[name] for name in sorted(wanted))


def _blocks() -> dict[str, str]:
    """Each package's lines of requirements.lock."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.finditer(r"^([A-Za-z0-9._-]+)==(?:.*\\\n)*.*\n", text, re.MULTILINE)
    return {str(canonicalize_name(match[1])): match[0] for match in blocks}


def _closure(roots: tuple[str, ...]) -> set[str]:
    """The packages and all that they need on Linux."""
    wanted: set[str] = set()
    open_ends = [str(canonicalize_name(name)) for name in roots]
    while open_ends:
        name = open_ends.pop()
        if name in wanted:
            continue
        wanted.add(name)
        for text in requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate(dict(_LINUX)):
                open_ends.append(str(canonicalize_name(needed.name)))
    return wanted


def main() -> None:
    """Write them."""
    for image in IMAGES:
        (FOLDER / f"{image}.lock").write_text(lock_of(image), encoding="utf-8")


if __name__ == "__main__":
    main()
