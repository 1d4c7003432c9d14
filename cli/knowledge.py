"""`metacog knowledge`: what the router knows, through its gRPC face."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
import typer
from metacog.router.v1 import knowledge_pb2 as pb
from metacog.router.v1 import router_pb2_grpc
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from chassis.peer import Peer
from chassis.settings import SuiteSettings, read
from chassis.wire import event, plain, to_proto
from cli.documents import Document, batches, read_documents
from kernel.errors import MetacogError

T = TypeVar("T")
Said = dict[str, Any]

TIMEOUT_S = 60.0
ADDING_S = 3600.0
SNIPPET = 160

app = typer.Typer(help="What the router knows: documents, and verified answers.", no_args_is_help=True)

Key = Annotated[str, typer.Option(envvar="METACOG_API_KEY", help="API key, where keys are configured.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]

shown = Console(highlight=False, markup=False)
told = Console(stderr=True, highlight=False, markup=False)


@app.command()
def add(
    paths: Annotated[list[Path], typer.Argument(help="Files (.txt, .md, .jsonl), or folders of them.")],
    label: Annotated[list[str] | None, typer.Option(help="Label for each document, as NAME=TEXT; repeatable.")] = None,
    chunk_characters: Annotated[int | None, typer.Option(min=1, help="Length of a chunk at most.")] = None,
    chunk_overlap: Annotated[int | None, typer.Option(min=0, help="Characters that chunks share at most.")] = None,
    key: Key = "",
    json: AsJson = False,
) -> None:
    """Add documents. A file replaces what was added under the same path before; what has not changed costs nothing."""
    reading = read_documents(paths)
    for problem in reading.problems:
        told.print(f"skipped {problem}", style="yellow", soft_wrap=True)
    labels = dict(_label(each) for each in label or ())
    documents = [replace(document, labels={**document.labels, **labels}) for document in reading.documents]
    sizes = {"chunk_characters": chunk_characters, "chunk_overlap_characters": chunk_overlap}
    added = asyncio.run(_with_router(key, lambda router, stub: _added(router, stub, documents, sizes)))
    if json:
        _print_json({**added, "skipped": reading.problems})
    else:
        shown.print(f"documents: {len(added['documents'])}, of which replaced: {added['replaced']}")
        shown.print(f"chunks embedded: {added['chunks']} in {added['embedding_ms'] / 1000:.1f} s")
    raise typer.Exit(1 if reading.problems else 0)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Text to look for.")],
    hits: Annotated[int, typer.Option(min=1, max=100, help="How many to show.")] = 10,
    minimum: Annotated[float | None, typer.Option(min=-1, max=1, help="Least similarity.")] = None,
    key: Key = "",
    json: AsJson = False,
) -> None:
    """Find what is nearest in meaning to a text."""
    request = to_proto({"query": query, "page_size": hits, "minimum_similarity": minimum}, pb.SearchKnowledgeRequest)
    found = asyncio.run(_with_router(key, lambda router, stub: _asked(router, stub.SearchKnowledge, request)))
    if json:
        _print_json(found)
        return
    table = Table("similarity", "from", "text", box=None)
    for hit in found["hits"]:
        place = f"{hit['document_id']} #{hit['chunk']}" if hit["kind"] == "DOCUMENT" else f"run {hit['run_id']}"
        table.add_row(f"{hit['similarity']:.3f}", place, _snippet(hit["text"], hit["answer"]))
    shown.print(table if found["hits"] else "nothing was found")


@app.command(name="list")
def list_documents(
    title: Annotated[str, typer.Option(help="Only documents whose title contains this.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many to show at most.")] = 50,
    key: Key = "",
    json: AsJson = False,
) -> None:
    """List the documents, newest first."""
    found = asyncio.run(_with_router(key, lambda router, stub: _listed(router, stub, title, limit)))
    if json:
        _print_json(found)
        return
    table = Table("document", "title", "chunks", "characters", "added", box=None)
    for kept in found["documents"]:
        numbers = (str(kept["chunks"]), str(kept["characters"]), kept["added_at"][:19])
        table.add_row(kept["document_id"], kept["title"], *numbers)
    shown.print(table)
    totals = "{total_documents} documents in {total_chunks} chunks, {total_experiences} verified answers"
    shown.print(totals.format(**found))


@app.command()
def delete(
    document_ids: Annotated[list[str], typer.Argument(help="Documents to delete.")], key: Key = "", json: AsJson = False
) -> None:
    """Delete documents."""
    deleted = asyncio.run(_with_router(key, lambda router, stub: _deleted(router, stub, document_ids)))
    if json:
        _print_json(deleted)
        return
    for one in deleted:
        shown.print(f"{one['document_id']}: {one['chunks']} chunks deleted")


def _label(text: str) -> tuple[str, str]:
    name, found, content = text.partition("=")
    if not found or not name:
        raise typer.BadParameter(f"{text!r} is no NAME=TEXT", param_hint="--label")
    return name, content


@asynccontextmanager
async def _router(key: str) -> AsyncIterator[Peer]:
    router = Peer("router", read(SuiteSettings).router_address, key=key)
    try:
        yield router
    finally:
        await router.close()


async def _with_router(key: str, work: Callable[[Peer, Any], Awaitable[T]]) -> T:
    async with _router(key) as router:
        return await work(router, router_pb2_grpc.RouterServiceStub(router.channel))


async def _asked(router: Peer, method: Any, request: Any) -> Said:  # noqa: ANN401 - methods and messages of any kind
    return plain(await router.call(method, request, timeout_s=TIMEOUT_S))


async def _added(
    router: Peer,
    stub: Any,  # noqa: ANN401 - generated
    documents: Sequence[Document],
    sizes: dict[str, int | None],
) -> Said:
    """What was added in all; what was added before a refusal stays, and is said."""
    total: Said = {"documents": [], "replaced": 0, "chunks": 0, "embedding_ms": 0.0, "duration_ms": 0.0}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=told, transient=True) as progress:
        bar = progress.add_task("documents", total=len(documents))
        try:
            for batch in batches(documents):
                request = to_proto({"documents": batch, **sizes}, pb.AddKnowledgeRequest)
                async for reply in router.stream(stub.AddKnowledge, request, timeout_s=ADDING_S):
                    name, content = event(reply)
                    if name == "knowledge_progress":
                        _show(progress, bar, len(total["documents"]), content)
                    else:
                        total = {field: total[field] + content[field] for field in total}
        except MetacogError:
            told.print(f"{len(total['documents'])} of {len(documents)} documents were added before this:")
            raise
    return total


def _show(progress: Progress, bar: TaskID, before: int, content: Said) -> None:
    chunks = f"documents ({content['embedded_chunks']} of {content['total_chunks']} chunks of this request)"
    progress.update(bar, completed=before + content["finished_documents"], description=chunks)


async def _listed(router: Peer, stub: Any, title: str, limit: int) -> Said:  # noqa: ANN401 - generated
    found: Said = {}
    documents: list[Said] = []
    token = ""
    while not found or (token and len(documents) < limit):
        size = min(200, limit - len(documents))
        request = pb.ListKnowledgeRequest(page_size=size, page_token=token, title_contains=title)
        found = await _asked(router, stub.ListKnowledge, request)
        documents += found["documents"]
        token = found["next_page_token"]
    return {**found, "documents": documents}


async def _deleted(router: Peer, stub: Any, document_ids: Sequence[str]) -> list[Said]:  # noqa: ANN401 - generated
    return [
        await _asked(router, stub.DeleteKnowledge, pb.DeleteKnowledgeRequest(document_id=name)) for name in document_ids
    ]


def _snippet(text: str, answer: str) -> str:
    one_line = " ".join((f"{text} -> {answer}" if answer else text).split())
    return one_line if len(one_line) <= SNIPPET else f"{one_line[: SNIPPET - 1]}…"


def _print_json(content: object) -> None:
    typer.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
