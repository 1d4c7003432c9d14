"""The tasks of delegation lie in one file for all models, beside a file that states what they were made from."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cli.terminal.exits import UnusableInput
from evals.paper.parts import Asked, benchmark_tasks


def require_same_tasks(file: Path, asked: Asked) -> None:
    """Raise an error where `file` has other tasks than are asked for; it need not exist yet.

    Raises:
        UnusableInput: When it has another number of tasks, or these were made from another source.
    """
    if not file.exists():
        return
    found, wanted = len(file.read_bytes().splitlines()), benchmark_tasks(asked.items)
    if found != wanted:
        raise _others(file, f"{found} tasks, and {wanted} are asked for")
    known = _known_source(file)
    if known != _source(asked):
        raise _others(file, f"tasks from {_words(known)}, and {_words(_source(asked))} is asked for")


@contextmanager
def made_tasks(file: Path, asked: Asked) -> Iterator[Path]:
    """Yield the file that the tasks are written to; it takes its final name when all are written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    yield unfinished
    _source_file(file).write_text(json.dumps(_source(asked)) + "\n", encoding="utf-8")
    os.replace(unfinished, file)


def _source(asked: Asked) -> Mapping[str, str]:
    """Return what selects the data, a folder by its whole path."""
    return {name: str(Path(text).resolve()) if name == "data" else text for name, text in asked.source.items()}


def _source_file(file: Path) -> Path:
    return file.with_suffix(".source.json")


def _known_source(file: Path) -> Mapping[str, str]:
    """Return what the tasks were made from; empty where nothing readable states it."""
    try:
        known = json.loads(_source_file(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _words(source: Mapping[str, str]) -> str:
    return " ".join(f"--{name} {text}" for name, text in source.items()) or "an unknown source"


def _others(file: Path, why: str) -> UnusableInput:
    return UnusableInput(f"{file} has {why}: give the options that it was made with, or another --out")
