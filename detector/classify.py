"""What the catalogue makes of lines, one JSON object each: ``python -m detector.classify FILE.jsonl``.

For ``nodemend rules classify``, for scoring the catalogue on labelled lines, and for trying a rule on last month's log.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from contract.names import ExitCode
from detector.catalogue import BUILT_IN, CatalogueError, catalogue
from detector.rules import Catalogue

BENIGN: Final = "benign"


class LineError(Exception):
    """A line of the input is no object with ``id`` and ``text``; the message names it."""


def classify(lines: Iterable[str], rules: Catalogue) -> Iterator[dict[str, Any]]:
    """``id``, ``verdict``, ``rule`` and ``fields`` for each object with ``id`` and ``text``.

    Raises:
        LineError: a line is not such an object.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            name, text = document["id"], str(document["text"])
        except (ValueError, TypeError, KeyError) as error:
            raise LineError(f"line {number} is no JSON object with `id` and `text` ({error})") from error
        match = rules.match(text)
        quiet = match is None or match.rule.verdict == BENIGN
        yield {
            "id": name,
            "verdict": match.rule.verdict if match else BENIGN,
            "rule": None if quiet or match is None else match.rule.id,
            "fields": {} if quiet or match is None else match.fields,
        }


def main(arguments: Sequence[str]) -> int:
    """Classify a file; ``-`` is standard input. More arguments are folders of rules that come first."""
    if not arguments or arguments[0].startswith("--"):
        print("Usage: python -m detector.classify FILE.jsonl|- [FOLDER_OF_RULES…]", file=sys.stderr)
        return ExitCode.USAGE
    source, *folders = arguments
    try:
        rules = catalogue([BUILT_IN, *map(Path, folders)])
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8", errors="replace")
        for found in classify(text.splitlines(), rules):
            print(json.dumps(found, ensure_ascii=False))
    except OSError as error:
        print(f"{source} cannot be read: {error.strerror}", file=sys.stderr)
        return ExitCode.NO_INPUT
    except (LineError, CatalogueError) as error:
        print(f"{source}: {error}", file=sys.stderr)
        return ExitCode.DATA
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
