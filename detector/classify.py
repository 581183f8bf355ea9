"""What the catalogue makes of lines, one JSON object each.

For ``nodemend rules classify``: for scoring the catalogue on labelled lines, and for trying a rule on last month's log.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from detector.rules import Catalogue

BENIGN: Final = "benign"


class LineError(Exception):
    """A line of the input is no object with ``id`` and ``text``; the message names it."""


def classify(lines: Iterable[str], rules: Catalogue) -> Iterator[dict[str, Any]]:
    """``id``, ``verdict``, ``rule`` and ``fields`` for each object with ``id`` and ``text``.

    Raises:
        LineError: a line is not such an object.
    """
    for number, raw in enumerate(lines, start=1):
        # Some editors begin a file with a byte-order mark.
        line = raw.removeprefix("\ufeff")
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            name, text = document["id"], document["text"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise LineError(f"line {number} is no JSON object with `id` and `text` ({error})") from error
        if not isinstance(text, str):
            raise LineError(f"line {number} has a `text` that is no text: {json.dumps(text)[:80]}")
        match = rules.match(text)
        quiet = match is None or match.rule.verdict == BENIGN
        yield {
            "id": name,
            "verdict": match.rule.verdict if match else BENIGN,
            "rule": None if quiet or match is None else match.rule.id,
            "fields": {} if quiet or match is None else match.fields,
        }
