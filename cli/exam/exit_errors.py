"""Errors about the tasks of an exam are errors about the user's input, with that exit status."""

from collections.abc import Iterator
from contextlib import contextmanager

from cli.terminal.exits import UnusableInput
from evals.errors import ItemsUnreadable


@contextmanager
def as_unusable_input() -> Iterator[None]:
    """Raise the errors of unreadable tasks as errors about a file of the user.

    Raises:
        UnusableInput: A task is unreadable.
    """
    try:
        yield
    except ItemsUnreadable as error:
        raise UnusableInput(error.message) from error
