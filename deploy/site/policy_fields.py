"""Every field of the policy, from the models: type, default, bounds, and what is written below it there."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Any, Final, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from contract.policy import Policy

_BOUNDS: Final = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_LONGEST_DEFAULT: Final = 60


def document() -> str:
    """The whole page."""
    parts = [
        "# Every field of the policy",
        "Printed from the models that workers check a policy with. What they are for, with examples: "
        "[the policy](policy.md). Durations are seconds or ISO 8601 (`PT30M`). Unknown fields are refused.",
    ]
    for model, path in _models(Policy):
        parts += [f"## {model.__name__}", f"At {path}. " + inspect.cleandoc(model.__doc__ or ""), _table(model)]
    enums = {kind.__name__: kind for model, _ in _models(Policy) for kind in _kinds(model, Enum)}
    parts += ["## Words", *(_words(kind) for _, kind in sorted(enums.items()))]
    return "\n\n".join(parts) + "\n"


def _models(root: type[BaseModel], path: str = "the top") -> Iterator[tuple[type[BaseModel], str]]:
    """The models below one, each once, with where it stands."""
    seen: dict[type[BaseModel], str] = {root: path}
    open_ends = [root]
    while open_ends:
        model = open_ends.pop(0)
        for name, field in model.model_fields.items():
            for kind in _parts(field.annotation):
                if inspect.isclass(kind) and issubclass(kind, BaseModel) and kind not in seen:
                    above = "" if model is root else seen[model].strip("`") + "."
                    seen[kind] = f"`{above}{name}`"
                    open_ends.append(kind)
    yield from seen.items()


def _kinds(model: type[BaseModel], base: type) -> Iterator[Any]:
    for field in model.model_fields.values():
        yield from (kind for kind in _parts(field.annotation) if inspect.isclass(kind) and issubclass(kind, base))


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _table(model: type[BaseModel]) -> str:
    told = _said_below(model)
    rows = ["| field | default | values | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        kind = _kind(field)
        rows.append(f"| `{name}` | {_default(field)} | {kind} | {told.get(name, '')} |")
    return "\n".join(rows)


def _said_below(thing: type) -> dict[str, str]:
    """The strings that stand below the names of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    found: dict[str, str] = {}
    name = ""
    for node in getattr(tree, "body", []):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            found[name] = " ".join(inspect.cleandoc(str(node.value.value)).replace("``", "`").split()).replace("|", "/")
            name = ""
    return found


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "as below"
    text = "none" if value is None else TypeAdapter(Any).dump_json(value).decode().strip('"')
    return f"`{text}`" if len(text) <= _LONGEST_DEFAULT else "some"


def _kind(field: FieldInfo) -> str:
    parts = [part for part in _parts(field.annotation) if inspect.isclass(part)]
    name = next((p.__name__ for p in parts if issubclass(p, Enum | BaseModel)), "")
    bounds = [
        f"{word} {_readable(getattr(item, key))}"
        for item in field.metadata
        for key, word in _BOUNDS.items()
        if getattr(item, key, None) is not None
    ]
    link = [f"[{name}](#{'words' if any(issubclass(p, Enum) for p in parts) else name.lower()})"] if name else []
    return ", ".join([*link, *bounds])


def _readable(bound: Any) -> str:
    return str(TypeAdapter(timedelta).dump_python(bound, mode="json")) if isinstance(bound, timedelta) else str(bound)


def _words(kind: type[Enum]) -> str:
    told = _said_below(kind)
    lines = [f"`{member.value}`" + (f": {told[member.name]}" if member.name in told else "") for member in kind]
    return "\n".join([f"**{kind.__name__}**", "", *(f"- {line}" for line in lines)])
