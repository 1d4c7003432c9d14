"""The commit that made a report."""

import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def commit() -> str:
    """The commit of this working copy, with `+` where files differ from it; `unknown` outside of one."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=normal") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def made_by(typed: str) -> str:
    """Return by what a report was made, for its head: the command as it was typed, and the commit."""
    return f"`{typed}` at commit {commit()}"


def _git(*words: str) -> str:
    completed = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, timeout=20, check=True)
    return completed.stdout.strip()
