"""What every command that answers programs shares: ``--output table|json|yaml``, and how a document is printed."""

import json
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

_LINE_ENDS: Final = ("\x85", "\u2028", "\u2029", "\ufeff")


class Output(StrEnum):
    """Who reads it."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="table for people; json or yaml, the same document, for programs.")
]


def plain(document: Any) -> Any:
    """A pydantic document as plain values."""
    return None if document is None else document.model_dump(mode="json")


def print_document(value: Any, output: Output) -> None:
    """One document of plain values, in the form that was asked for."""
    if output is Output.YAML:
        typer.echo(as_yaml(value), nl=False)
    else:
        typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def as_yaml(value: Any) -> str:
    """YAML of plain values, with their order kept."""
    import yaml

    # Through JSON: what is not plain (an enum, say) would be refused, or come out as a tag of Python's.
    text = json.dumps(value, ensure_ascii=False)
    # Written as themselves, these are line ends to YAML 1.1, and PyYAML does not escape them where it should.
    as_they_are = not any(end in text for end in _LINE_ENDS)
    written: str = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=as_they_are, width=110)
    return written
