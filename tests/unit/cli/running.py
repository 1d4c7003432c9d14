"""The `metacog` command in this process, as `main` runs it."""

import sys
from dataclasses import dataclass

import pytest

from cli.__main__ import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Metacog:
    """Runs commands."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *words: object) -> Done:
        self.monkeypatch.setattr(sys, "argv", ["metacog", *map(str, words)])
        try:
            status = main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0
        expected_text = self.capsys.readouterr()
        return Done(status, expected_text.out, expected_text.err)
