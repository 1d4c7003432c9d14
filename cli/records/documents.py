"""Reads files as documents of the knowledge base, and splits documents into requests of limited size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from chassis.json_text import InvalidJson, loads_request
from chassis.serving.wire import from_plain
from kernel.errors import MalformedRequest
from kernel.values import value

TEXTS = (".txt", ".md")
LINES = (".jsonl",)

# Limits of one request, so that progress is reported often and a failure repeats little.
MOST_DOCUMENTS = 200
MOST_CHARACTERS = 500_000


@value
class Document:
    """A document to add; a line of a `.jsonl` file has the same fields."""

    text: str
    document_id: str = ""
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@value
class DocumentSet:
    """The documents of several files.

    Attributes:
        documents: Documents, in the order of the files.
        problems: One sentence for each file that could not be read.
    """

    documents: Sequence[Document]
    problems: Sequence[str]


class Unreadable(Exception):
    """A file, or a line of one, is not a document; the message has the reason."""


def read_documents(paths: Sequence[Path]) -> DocumentSet:
    """Read the documents in `paths`, which are files, and folders with their subfolders."""
    documents: list[Document] = []
    problems: list[str] = []
    for file in _files(paths, problems):
        try:
            documents += _read(file)
        except (Unreadable, OSError) as error:
            problems.append(f"{file}: {error.strerror if isinstance(error, OSError) else error}")
    return DocumentSet(documents=documents, problems=problems)


def batches(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """Split the documents into requests of limited size; a larger document has its own request."""
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
        found = sorted(file for file in path.rglob("*") if _is_readable(file, path))
        if not found:
            problems.append(f"{path}: no file under it ends in {', '.join((*TEXTS, *LINES))}")
        yield from found


def _is_readable(file: Path, under: Path) -> bool:
    """Return whether a file under a folder has a known suffix and is not hidden."""
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
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8 (byte {error.start})") from error


def _line(number: int, line: str) -> Document:
    try:
        given: Any = loads_request(line)
        document = from_plain(given, Document)
    except InvalidJson as error:
        raise Unreadable(f"line {number}: {error}") from error
    except MalformedRequest as error:
        raise Unreadable(f"line {number}: {error.message}") from error
    if not document.text.strip():
        raise Unreadable(f"line {number}: the text is empty")
    return document


def _title(text: str) -> str:
    """Return the heading with which a Markdown text begins, else an empty string.

    Example:
        >>> _title("# A title")
        'A title'
    """
    first = next(line for line in text.splitlines() if line.strip())
    return first.lstrip("#").strip() if first.startswith("#") else ""
