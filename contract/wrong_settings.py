"""Which environment variable is wrong, for every process that is set up by them."""

from collections.abc import Iterator

from pydantic import AliasChoices, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings


def wrong_settings(error: ValidationError, settings: type[BaseSettings]) -> Iterator[str]:
    """Each wrong variable, why it is wrong, and its value."""
    names = {name: variable_of(name, field) for name, field in settings.model_fields.items()}
    for problem in error.errors():
        where = str(problem["loc"][0])
        wrong = problem["msg"].removeprefix("Value error, ")
        why = "must be set" if problem["type"] == "missing" else f"{wrong} (is {problem['input']!r})"
        yield f"{names.get(where, where)}: {why}"


def variable_of(name: str, field: FieldInfo) -> str:
    """The environment variable of a setting."""
    if isinstance(field.validation_alias, AliasChoices):
        return str(field.validation_alias.choices[0])
    return f"NODEMEND_{name.upper()}"
