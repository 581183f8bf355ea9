"""Groups of commands that are loaded when one of theirs is given, or completed: ``--help`` of all needs none of them.

They bring the SDKs of Kubernetes and AWS, which cost every other command half a second.
"""

from importlib import import_module
from typing import Any, Final

from typer.core import TyperGroup
from typer.main import get_command

_GROUPS: Final = {
    "audit": "cli.audit",
    "local": "cli.local",
    "policy": "cli.policy",
    "rules": "cli.rules",
}
"""The module of each, whose ``app`` it is."""


class Lazily(TyperGroup):
    """Stands for what it holds until that is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What ``args`` begin with, and what is left of them."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in _GROUPS:
            command = get_command(import_module(_GROUPS[name]).app)
            command.name = name
        return name, command, rest


class Listing(TyperGroup):
    """A group whose ``list`` is meant where no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``list`` where a command would be."""
        if ctx.resilient_parsing:
            # A shell completes: nothing is meant yet.
            return super().parse_args(ctx, args)
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)
