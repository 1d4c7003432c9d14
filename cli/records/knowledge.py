"""`metacog knowledge`: what the router knows."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from cli.terminal.client import Service, in_path
from cli.terminal.exits import OK, PARTLY
from cli.terminal.options import AsJson, Key, RouterUrl, given
from cli.terminal.output import emit, shown, snippet, table, text, told
from kernel.errors import MetacogError

if TYPE_CHECKING:
    from cli.records.documents import Document

Said = dict[str, Any]
PAGE = 200

app = typer.Typer(help="What the router knows: documents, and verified answers.", no_args_is_help=True)


@app.command()
def add(  # noqa: PLR0913 - each is an option of the command
    paths: Annotated[list[Path], typer.Argument(help="Files (.txt, .md, .jsonl), or folders of them.")],
    label: Annotated[list[str] | None, typer.Option(help="Label for each document, as NAME=TEXT; repeatable.")] = None,
    chunk_characters: Annotated[int | None, typer.Option(min=1, help="Length of a chunk at most.")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(min=0, help="Characters that chunks share at most.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Add documents. A file replaces what was added under the same path before; what has not changed costs nothing.

    Exit status 5 when a file could not be read; the others are added.
    """
    # It takes most of a second to import what checks documents; searching needs none of it.
    from dataclasses import replace

    from cli.records.documents import read_documents

    labels = dict(_label(each) for each in label or ())
    reading = read_documents(paths)
    for problem in reading.problems:
        told.print(text(f"skipped {problem}", "yellow"), soft_wrap=True)
    documents = [replace(document, labels={**document.labels, **labels}) for document in reading.documents]
    sizes = given(chunk_characters=chunk_characters, chunk_overlap_characters=chunk_overlap)
    added = _added(Service("router", router, key=key), documents, sizes)
    if as_json:
        emit({**added, "skipped": list(reading.problems)})
    else:
        shown.print(f"documents: {len(added['documents'])}, of which replaced: {added['replaced']}")
        shown.print(f"chunks embedded: {added['chunks']} in {added['embedding_ms'] / 1000:.1f} s")
    raise typer.Exit(PARTLY if reading.problems else OK)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Text to look for.")],
    hits: Annotated[int, typer.Option(min=1, max=100, help="How many to show.")] = 10,
    minimum: Annotated[float | None, typer.Option(min=-1, max=1, help="Least similarity.")] = None,
    router: RouterUrl = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Find what is nearest in meaning to a text."""
    body = given(query=query, page_size=hits, minimum_similarity=minimum)
    found = Service("router", router, key=key).post("/v1/knowledge:search", body)
    if as_json:
        emit(found)
        return
    rows = [[f"{hit['similarity']:.3f}", _place(hit), snippet(_said(hit))] for hit in found["hits"]]
    shown.print(table(["similarity", "from", "text"], rows) if rows else "nothing was found")


@app.command(name="list")
def list_documents(
    title: Annotated[str, typer.Option(help="Only documents whose title contains this.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many to show at most.")] = 50,
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
        emit({**totals, "documents": documents})
        return
    rows = [
        [kept["document_id"], kept["title"], str(kept["chunks"]), str(kept["characters"]), kept["added_at"][:19]]
        for kept in documents
    ]
    shown.print(table(["document", "title", "chunks", "characters", "added"], rows))
    counts = "{total_documents} documents in {total_chunks} chunks, {total_experiences} verified answers"
    shown.print(counts.format(**totals))


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
        emit(deleted)
        return
    for one in deleted:
        shown.print(text(f"{one['document_id']}: {one['chunks']} chunks deleted"), soft_wrap=True)


def _label(said: str) -> tuple[str, str]:
    name, found, content = said.partition("=")
    if not found or not name:
        raise typer.BadParameter(f"{said!r} is no NAME=TEXT", param_hint="--label")
    return name, content


def _added(router: Service, documents: "Sequence[Document]", sizes: Said) -> Said:
    """What was added in all; what was added before a refusal stays, and is said."""
    from dataclasses import asdict

    from cli.records.documents import batches

    total: Said = {"documents": [], "replaced": 0, "chunks": 0, "embedding_ms": 0.0, "duration_ms": 0.0}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=told, transient=True) as progress:
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
            told.print(f"{len(total['documents'])} of {len(documents)} documents were added before this:")
            raise
    return total


def _show(progress: Progress, bar: TaskID, before: int, content: Any) -> None:  # noqa: ANN401 - JSON
    chunks = f"documents ({content['embedded_chunks']} of {content['total_chunks']} chunks of this request)"
    progress.update(bar, completed=before + content["finished_documents"], description=chunks)


def _place(hit: Said) -> str:
    return f"{hit['document_id']} #{hit['chunk']}" if hit["kind"] == "DOCUMENT" else f"run {hit['run_id']}"


def _said(hit: Said) -> str:
    return f"{hit['text']} -> {hit['answer']}" if hit["answer"] else str(hit["text"])
