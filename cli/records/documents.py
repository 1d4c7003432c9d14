"""Files as documents for the knowledge base, and documents as requests of a fair size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import orjson

from chassis.serving.wire import from_plain
from kernel.errors import MalformedRequest
from kernel.values import value

TEXTS = (".txt", ".md")
LINES = (".jsonl",)

# One request holds at most this much, so that its progress is told often and a failure costs little.
MOST_DOCUMENTS = 200
MOST_CHARACTERS = 500_000


@value
class Document:
    """A document to be added; a line of a `.jsonl` file has the same fields."""

    text: str
    document_id: str = ""
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@value
class Reading:
    """What was found in some files.

    Attributes:
        documents: The documents, in the order of the files.
        problems: What could not be read, a sentence each.
    """

    documents: Sequence[Document]
    problems: Sequence[str]


class Unreadable(Exception):
    """A file, or a line of one, is no document; the message says why."""


def read_documents(paths: Sequence[Path]) -> Reading:
    """Documents in `paths`: files, and folders with all that is under them."""
    documents: list[Document] = []
    problems: list[str] = []
    for file in _files(paths, problems):
        try:
            documents += _read(file)
        except (Unreadable, OSError) as wrong:
            problems.append(f"{file}: {wrong.strerror if isinstance(wrong, OSError) else wrong}")
    return Reading(documents=documents, problems=problems)


def batches(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """The documents in requests of a fair size; one that is larger by itself goes alone."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        if batch and (len(batch) == MOST_DOCUMENTS or size + len(document.text) > MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document.text)
    if batch:
        yield batch


def _files(paths: Sequence[Path], problems: list[str]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.rglob("*") if _counts(file, path))
        if not found:
            problems.append(f"{path}: no file under it ends in {', '.join((*TEXTS, *LINES))}")
        yield from found


def _counts(file: Path, under: Path) -> bool:
    """Whether a file under a folder is one of ours; hidden ones are not."""
    hidden = any(part.startswith(".") for part in file.relative_to(under).parts)
    return not hidden and file.suffix.lower() in (*TEXTS, *LINES) and file.is_file()


def _read(file: Path) -> Sequence[Document]:
    kind = file.suffix.lower()
    if kind not in (*TEXTS, *LINES) and file.exists():
        raise Unreadable(f"is none of {', '.join((*TEXTS, *LINES))}")
    text = _decoded(file.read_bytes())
    if not text.strip():
        raise Unreadable("is empty")
    if kind in LINES:
        return [_line(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    return [Document(document_id=file.as_posix(), title=_title(text) or file.name, text=text)]


def _decoded(raw: bytes) -> str:
    if b"\x00" in raw:
        raise Unreadable("is binary, not text")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise Unreadable(f"is not UTF-8 (byte {wrong.start})") from wrong


def _line(number: int, line: str) -> Document:
    try:
        given: Any = orjson.loads(line)
        document = from_plain(given, Document)
    except orjson.JSONDecodeError as wrong:
        raise Unreadable(f"line {number} is not JSON: {wrong}") from wrong
    except MalformedRequest as wrong:
        raise Unreadable(f"line {number}: {wrong.message}") from wrong
    if not document.text.strip():
        raise Unreadable(f"line {number}: the text is empty")
    return document


def _title(text: str) -> str:
    """The first heading of a Markdown text, if that is how it begins.

    Example:
        >>> _title("# A title")
        'A title'
    """
    first = next(line for line in text.splitlines() if line.strip())
    return first.lstrip("#").strip() if first.startswith("#") else ""
