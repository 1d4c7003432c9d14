"""Reads the input of a command (questions, states, files); its errors name the file and the line."""

import sys
from pathlib import Path
from typing import Any

from chassis.json_text import InvalidJson, loads_request
from cli.terminal.exits import UnusableInput
from kernel.activation import TERMS
from kernel.msv import ABBREVIATIONS

# The components by abbreviation, first those that are terms of the activation.
COMPONENTS = {ABBREVIATIONS[name]: name for name in dict.fromkeys((*TERMS, *ABBREVIATIONS))}


def question(given: str) -> str:
    """Return the given text, or standard input for `-`.

    Raises:
        UnusableInput: The text is empty.
    """
    text = sys.stdin.read() if given == "-" else given
    if not text.strip():
        raise UnusableInput("the question is empty; give it as an argument, or as `-` and on standard input")
    return text


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input for `-`.

    Raises:
        UnusableInput: The file cannot be read as text.
    """
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{path} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UnusableInput(f"{path} cannot be read: {error.strerror}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or on standard input for `-`.

    Raises:
        UnusableInput: The file does not contain a JSON object.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise UnusableInput(f"{path} does not contain a JSON object")
    return content


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON is of any kind
    """Return the JSON document in a file, or on standard input for `-`.

    Raises:
        UnusableInput: The file is not JSON; the message names the line.
    """
    try:
        return loads_request(read_text(path))
    except InvalidJson as error:
        place = path if error.line is None else f"{path}, line {error.line}"
        raise UnusableInput(f"{place}: {error}") from error


def state(given: str) -> dict[str, float]:
    """Parse a metacognitive state such as `correctness=0.45,conflict=0.72` or `CE=0.45,CI=0.72`.

    Raises:
        UnusableInput: The text has another form.

    Example:
        >>> state("CE=0.45, conflict=0.72")
        {'correctness': 0.45, 'conflict': 0.72}
    """
    return dict(_component(part.strip()) for part in given.split(",") if part.strip())


def _component(part: str) -> tuple[str, float]:
    name, found, level = part.partition("=")
    full = COMPONENTS.get(name.strip().upper(), name.strip())
    if not found or full not in COMPONENTS.values():
        known = ", ".join(f"{short} or {long}" for short, long in COMPONENTS.items())
        raise UnusableInput(f"{part!r} is not a component; write NAME=NUMBER, where NAME is {known}")
    try:
        return full, float(level)
    except ValueError:
        raise UnusableInput(f"{part!r}: {level!r} is not a number from 0 to 1") from None
