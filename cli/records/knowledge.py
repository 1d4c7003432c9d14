"""`metacog knowledge` manages the knowledge base of the router."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from metacog.router.v1.knowledge_pb2 import (
    KNOWLEDGE_KIND_DOCUMENT,
    AddKnowledgeResponse,
    DeleteKnowledgeResponse,
    KnowledgeAdded,
    KnowledgeDocument,
    KnowledgeHit,
    KnowledgeProgress,
    ListKnowledgeResponse,
    SearchKnowledgeResponse,
)
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from chassis.serving.wire import optional
from cli.terminal.client import Service, in_path
from cli.terminal.exits import OK, PARTIAL
from cli.terminal.options import AsJson, Key, RouterUrl, given
from cli.terminal.output import moment, print_json, snippet, stderr, stdout, table, text
from kernel.errors import MetacogError

if TYPE_CHECKING:
    from cli.records.documents import Document

PAGE = 200

app = typer.Typer(help="Documents and verified answers: add, search, list, delete.", no_args_is_help=True)


@app.command()
def add(  # noqa: PLR0913 - each is an option of the command
    paths: Annotated[list[Path], typer.Argument(help="Files (.txt, .md, .jsonl), or folders of them.")],
    label: Annotated[list[str] | None, typer.Option(help="Label for each document, as NAME=TEXT; repeatable.")] = None,
    chunk_characters: Annotated[int | None, typer.Option(min=1, help="Maximum length of a chunk [characters].")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(min=0, help="Maximum overlap of chunks [characters].")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Add documents. A file replaces the document of the same path; an unchanged file costs nothing.

    Exit status 5 when a file could not be read; the others are added.
    """
    # The import of the document checks takes most of a second; the other commands do not need it.
    from cli.records.documents import read_documents

    labels = dict(_label(each) for each in label or ())
    reading = read_documents(paths)
    for problem in reading.problems:
        stderr.print(text(f"skipped {problem}", "yellow"), soft_wrap=True)
    documents = [replace(document, labels={**document.labels, **labels}) for document in reading.documents]
    sizes = given(chunk_characters=chunk_characters, chunk_overlap_characters=chunk_overlap)
    added = _added(Service("router", router, key=key), documents, sizes)
    if as_json:
        print_json({**asdict(added), "skipped": list(reading.problems)})
    else:
        stdout.print(f"documents: {len(added.documents)}, of which replaced: {added.replaced}")
        stdout.print(f"chunks embedded: {added.chunks} in {added.embedding_ms / 1000:.1f} s")
    raise typer.Exit(PARTIAL if reading.problems else OK)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Text to search for.")],
    hits: Annotated[int, typer.Option(min=1, max=100, help="Number of hits to show.")] = 10,
    minimum: Annotated[float | None, typer.Option(min=-1, max=1, help="Minimum similarity.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Search for the chunks that are most similar in meaning to a text."""
    body = given(query=query, page_size=hits, minimum_similarity=minimum)
    found = Service("router", router, key=key).post("/v1/knowledge:search", body, SearchKnowledgeResponse)
    if as_json:
        print_json(found.document)
        return
    rows = [[f"{hit.similarity:.3f}", _place(hit), snippet(_hit_text(hit))] for hit in found.message.hits]
    stdout.print(table(["similarity", "from", "text"], rows) if rows else "nothing was found")


@app.command(name="list")
def list_documents(
    title: Annotated[str, typer.Option(help="Only documents whose title contains this.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Maximum number to show.")] = 50,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """List the documents, newest first."""
    service = Service("router", router, key=key)
    size = min(PAGE, limit)
    totals = service.get("/v1/knowledge", ListKnowledgeResponse, page_size=size, title_contains=title)
    pages = service.pages("/v1/knowledge", "documents", KnowledgeDocument, page_size=size, title_contains=title)
    documents = list(islice(pages, limit))
    if as_json:
        print_json(totals.document_with("documents", [each.document for each in documents]))
        return
    rows = [
        [each.document_id, each.title, str(each.chunks), str(each.characters), moment(optional(each, "added_at"))]
        for each in (document.message for document in documents)
    ]
    stdout.print(table(["document", "title", "chunks", "characters", "added"], rows))
    found = totals.message
    stdout.print(
        f"{found.total_documents} documents in {found.total_chunks} chunks, {found.total_experiences} verified answers"
    )


@app.command()
def delete(
    document_ids: Annotated[list[str], typer.Argument(help="Documents to delete.")],
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Delete documents."""
    service = Service("router", router, key=key)
    deleted = [service.delete(f"/v1/knowledge/{in_path(name)}", DeleteKnowledgeResponse) for name in document_ids]
    if as_json:
        print_json([one.document for one in deleted])
        return
    for one in deleted:
        done = one.message
        stdout.print(text(f"{done.document_id}: {done.chunks} chunks deleted"), soft_wrap=True)


def _label(written: str) -> tuple[str, str]:
    name, found, content = written.partition("=")
    if not found or not name:
        raise typer.BadParameter(f"{written!r} is not NAME=TEXT", param_hint="--label")
    return name, content


@dataclass
class _Added:
    """What was added so far, of all requests together."""

    documents: list[object] = field(default_factory=list)
    replaced: int = 0
    chunks: int = 0
    embedding_ms: float = 0.0
    duration_ms: float = 0.0

    def add(self, more: KnowledgeAdded, documents: Sequence[object]) -> None:
        """Add what one request added."""
        self.documents.extend(documents)
        self.replaced += more.replaced
        self.chunks += more.chunks
        self.embedding_ms += more.embedding_ms
        self.duration_ms += more.duration_ms


def _added(router: Service, documents: "Sequence[Document]", sizes: Mapping[str, object]) -> _Added:
    """Add the documents and return the totals; documents that were added before an error are reported."""
    from cli.records.documents import batches

    total = _Added()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        bar = progress.add_task("documents", total=len(documents))
        try:
            for batch in batches(documents):
                body = {"documents": [given(**asdict(each)) for each in batch], **sizes}
                for event in router.stream("/v1/knowledge", body, AddKnowledgeResponse):
                    if event.message.HasField("knowledge_progress"):
                        _show(progress, bar, len(total.documents), event.message.knowledge_progress)
                    else:
                        total.add(event.message.knowledge_added, event.items("documents"))
        except MetacogError:
            stderr.print(f"{len(total.documents)} of {len(documents)} documents were added before this:")
            raise
    return total


def _show(progress: Progress, bar: TaskID, before: int, now: KnowledgeProgress) -> None:
    chunks = f"documents ({now.embedded_chunks} of {now.total_chunks} chunks of this request)"
    progress.update(bar, completed=before + now.finished_documents, description=chunks)


def _place(hit: KnowledgeHit) -> str:
    if hit.kind != KNOWLEDGE_KIND_DOCUMENT:
        return f"run {hit.run_id}"
    return f"{hit.document_id} #{hit.chunk}" if hit.HasField("chunk") else hit.document_id


def _hit_text(hit: KnowledgeHit) -> str:
    return f"{hit.text} -> {hit.answer}" if hit.answer else hit.text
