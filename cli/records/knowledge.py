"""`metacog knowledge` manages the knowledge base of the router."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli.terminal.client import Service, in_path
from cli.terminal.exits import OK, PARTIAL
from cli.terminal.options import AsJson, Key, RouterUrl, given
from cli.terminal.output import print_json, snippet, stderr, stdout, table, text
from kernel.errors import MetacogError

if TYPE_CHECKING:
    from cli.records.documents import Document

Content = dict[str, Any]
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
    from dataclasses import replace

    from cli.records.documents import read_documents

    labels = dict(_label(each) for each in label or ())
    reading = read_documents(paths)
    for problem in reading.problems:
        stderr.print(text(f"skipped {problem}", "yellow"), soft_wrap=True)
    documents = [replace(document, labels={**document.labels, **labels}) for document in reading.documents]
    sizes = given(chunk_characters=chunk_characters, chunk_overlap_characters=chunk_overlap)
    added = _added(Service("router", router, key=key), documents, sizes)
    if as_json:
        print_json({**added, "skipped": list(reading.problems)})
    else:
        stdout.print(f"documents: {len(added['documents'])}, of which replaced: {added['replaced']}")
        stdout.print(f"chunks embedded: {added['chunks']} in {added['embedding_ms'] / 1000:.1f} s")
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
    found = Service("router", router, key=key).post("/v1/knowledge:search", body)
    if as_json:
        print_json(found)
        return
    rows = [[f"{hit['similarity']:.3f}", _place(hit), snippet(_hit_text(hit))] for hit in found["hits"]]
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
    totals = dict(service.get("/v1/knowledge", page_size=size, title_contains=title))
    pages = service.pages("/v1/knowledge", "documents", page_size=size, title_contains=title)
    documents = list(islice(pages, limit))
    if as_json:
        print_json({**totals, "documents": documents})
        return
    rows = [
        [each["document_id"], each["title"], str(each["chunks"]), str(each["characters"]), each["added_at"][:19]]
        for each in documents
    ]
    stdout.print(table(["document", "title", "chunks", "characters", "added"], rows))
    counts = "{total_documents} documents in {total_chunks} chunks, {total_experiences} verified answers"
    stdout.print(counts.format(**totals))


@app.command()
def delete(
    document_ids: Annotated[list[str], typer.Argument(help="Documents to delete.")],
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Delete documents."""
    service = Service("router", router, key=key)
    deleted = [service.delete(f"/v1/knowledge/{in_path(name)}") for name in document_ids]
    if as_json:
        print_json(deleted)
        return
    for one in deleted:
        stdout.print(text(f"{one['document_id']}: {one['chunks']} chunks deleted"), soft_wrap=True)


def _label(written: str) -> tuple[str, str]:
    name, found, content = written.partition("=")
    if not found or not name:
        raise typer.BadParameter(f"{written!r} is not NAME=TEXT", param_hint="--label")
    return name, content


def _added(router: Service, documents: "Sequence[Document]", sizes: Content) -> Content:
    """Add the documents and return the totals; documents that were added before an error are reported."""
    from dataclasses import asdict

    from cli.records.documents import batches

    total: Content = {"documents": [], "replaced": 0, "chunks": 0, "embedding_ms": 0.0, "duration_ms": 0.0}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        bar = progress.add_task("documents", total=len(documents))
        try:
            for batch in batches(documents):
                body = {"documents": [given(**asdict(each)) for each in batch], **sizes}
                for name, content in router.stream("/v1/knowledge", body):
                    if name == "knowledge_progress":
                        _show(progress, bar, len(total["documents"]), content)
                    else:
                        total = {field: total[field] + content[field] for field in total}
        except MetacogError:
            stderr.print(f"{len(total['documents'])} of {len(documents)} documents were added before this:")
            raise
    return total


def _show(progress: Progress, bar: TaskID, before: int, content: Any) -> None:  # noqa: ANN401 - JSON
    chunks = f"documents ({content['embedded_chunks']} of {content['total_chunks']} chunks of this request)"
    progress.update(bar, completed=before + content["finished_documents"], description=chunks)


def _place(hit: Content) -> str:
    return f"{hit['document_id']} #{hit['chunk']}" if hit["kind"] == "DOCUMENT" else f"run {hit['run_id']}"


def _hit_text(hit: Content) -> str:
    return f"{hit['text']} -> {hit['answer']}" if hit["answer"] else str(hit["text"])
