"""Commands whose modules are imported only when they run, so that help and completion stay fast."""

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


class Row(NamedTuple):
    """A row describes one command: its function and its line in the help.

    Attributes:
        target: Module and name of a Typer application or of a function, such as `cli.records.runs:app`.
        help: Its line in the help.
        panel: Its heading in the help.
    """

    target: str
    help: str
    panel: str


class Stub(TyperCommand):
    """A stub represents a command in help and completion."""

    def __init__(self, name: str, row: Row) -> None:
        super().__init__(name, help=row.help, rich_help_panel=row.panel)
        self.row = row


def loaded(name: str, row: Row) -> Any:  # noqa: ANN401 - Typer does not export the type of its commands
    """Import and return the command of a row."""
    module, _, attribute = row.target.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = get_command(alone)
    command.name = name
    return command


def lazy_group(rows: dict[str, Row]) -> type[TyperGroup]:
    """Return a group class with the commands of `rows`, in addition to its registered commands."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - Typer's own
            super().__init__(**settings)
            self.commands = {**{name: Stub(name, row) for name, row in rows.items()}, **self.commands}

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's own
            name, command, rest = super().resolve_command(ctx, args)
            if isinstance(command, Stub) and name is not None:
                command = self.commands[name] = loaded(name, command.row)
            return name, command, rest

    return LazyGroup
