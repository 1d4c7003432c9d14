"""A work makes tables of docs/evaluation; `made.json` remembers from which records, and what it made.

Most works take minutes. So `make check` compares digests of these: a changed record, or a changed table, is found
without making it again. `make evaluation-pages` makes all of it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from docs.generating.sections import between, replaced
from kernel.values import value

FOLDER = Path("docs", "evaluation")
MADE = FOLDER / "made.json"
END = "<!-- end -->"


@value
class Work:
    """A work makes whole files, and parts of pages.

    Attributes:
        name: Its name.
        records: Files and folders of its records, below docs/evaluation; none where a command simulates.
        makes: What it makes, below docs/evaluation: `PAGE`, or `PAGE#PART` for a part between markers.
        make: Makes it from the root of the repository, by these names.
        is_quick: Whether it takes seconds, so that `make check` makes it too.
    """

    name: str
    records: Sequence[str]
    makes: Sequence[str]
    make: Callable[[Path], Mapping[str, str]]
    is_quick: bool = False


def stale(root: Path, works: Sequence[Work]) -> Sequence[str]:
    """Return what does not fit `made.json`, in sentences; empty where everything does."""
    known = json.loads((root / MADE).read_text())
    found = []
    for work in works:
        was = known.get(work.name, {"records": "", "made": {}})
        if was["records"] != records_digest(root, work):
            found.append(f"the records of {work.name} are not those that its tables were made from")
        now = {name: _digest(there(root, name)) for name in work.makes}
        changed = [name for name in now if now[name] != was["made"].get(name)]
        if work.is_quick and not changed:
            changed = list(differing(root, work, work.make(root)))
        found += [f"{FOLDER / name} is not as {work.name} makes it" for name in changed]
    return found


def differing(root: Path, work: Work, made: Mapping[str, str]) -> Sequence[str]:
    """Return the names of what is there otherwise than it was just made."""
    return [name for name in work.makes if there(root, name) != made[name]]


def put(root: Path, work: Work, made: Mapping[str, str]) -> None:
    """Write what a work made, and remember it."""
    for name, text in made.items():
        page, _, part = name.partition("#")
        path = root / FOLDER / page
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = _begin(part)
        path.write_text(replaced(page, path.read_text(), begin, END, text) if part else text)
    file = root / MADE
    known = json.loads(file.read_text()) if file.exists() else {}
    known[work.name] = {
        "records": records_digest(root, work),
        "made": {name: _digest(there(root, name)) for name in work.makes},
    }
    file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def there(root: Path, name: str) -> str:
    """Return what a file, or a part of a page, holds now; empty where it is not there."""
    page, _, part = name.partition("#")
    path = root / FOLDER / page
    text = path.read_text() if path.exists() else ""
    return between(text, _begin(part), END) if part else text


def records_digest(root: Path, work: Work) -> str:
    """Return a digest of the records of a work, by names and contents."""
    paths = sorted(
        path
        for record in work.records
        for path in ([root / FOLDER / record] if record.endswith(".gz") else (root / FOLDER / record).iterdir())
    )
    return _digest("".join(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in paths))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _begin(part: str) -> str:
    return f"<!-- {part}: made by `make evaluation-pages` -->"
