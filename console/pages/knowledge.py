"""The knowledge page: it adds documents with progress, lists, searches and deletes them."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from metacog.router.v1.knowledge_pb2 import (
    AddKnowledgeResponse,
    DeleteKnowledgeResponse,
    KnowledgeAdded,
    KnowledgeProgress,
    ListKnowledgeResponse,
    SearchKnowledgeResponse,
)

from console.errors import BadFile, InvalidInput, notice
from console.guard import session_of
from console.live_runs import Event
from console.live_streams import Events, stream
from console.replies.service_client import segment
from console.site import Part, Site, drawn, form, fragment, page, part
from kernel.errors import MetacogError

PAGE_SIZE = 25
HITS = 8
ADD_TIMEOUT_S = 900.0


class UploadView:
    """A view of an upload, rendered completely after each event."""

    def __init__(self, name: str) -> None:
        self._shown: dict[str, Any] = {"name": name, "progress": None, "added": None, "notice": None, "stopped": False}

    @property
    def shown(self) -> Mapping[str, Any]:
        """The variables of its template."""
        return self._shown

    def take(self, events: Events) -> str:
        """Apply events, and render the state of the upload."""
        fresh = False
        for _, data in events:
            fresh = True
            match data:
                case KnowledgeProgress():
                    self._shown["progress"] = data
                case KnowledgeAdded():
                    self._shown["added"] = data
                case MetacogError():
                    self._shown["notice"] = notice(data)
                case None:
                    self._shown["stopped"] = True
        return drawn("knowledge/upload_state.html", **self._shown) if fresh else ""


def add_paths(app: FastAPI, site: Site) -> None:
    """Add the page to `app`."""
    add_reading_paths(app, site)
    add_writing_paths(app, site)


def add_reading_paths(app: FastAPI, site: Site) -> None:
    """Add listing and searching to `app`."""
    router = site.router

    async def listed(request: Request) -> Part[ListKnowledgeResponse]:
        asked = {name: request.query_params.get(name, "") for name in ("title_contains", "page_token")}
        key = session_of(request).key
        return await part(router.get("/v1/knowledge", ListKnowledgeResponse, key=key, page_size=PAGE_SIZE, **asked))

    @app.get("/knowledge")
    async def knowledge(request: Request) -> Response:
        title = request.query_params.get("title_contains", "")
        limit = site.settings.max_upload_bytes
        return page(request, "knowledge/page.html", found=await listed(request), title=title, limit=limit)

    @app.get("/knowledge/documents")
    async def documents(request: Request) -> Response:
        title = request.query_params.get("title_contains", "")
        return fragment("knowledge/documents.html", found=await listed(request), title=title)

    @app.get("/knowledge/search")
    async def search(request: Request, query: str = "") -> Response:
        if not query.strip():
            raise InvalidInput("Enter a text to search for.")
        body = {"query": query, "page_size": HITS}
        key = session_of(request).key
        found = await part(router.post("/v1/knowledge:search", body, SearchKnowledgeResponse, key=key))
        return fragment("knowledge/hits.html", found=found, query=query)


def add_writing_paths(app: FastAPI, site: Site) -> None:
    """Add uploading and deleting to `app`."""

    @app.post("/knowledge/upload")
    async def upload(request: Request, name: str = "") -> Response:
        document = read_document(name, await _body(request, site.settings.max_upload_bytes))
        return _upload_started(site, document, session_of(request).key)

    @app.post("/knowledge/text")
    async def text(request: Request) -> Response:
        fields = await form(request, most_bytes=3 * site.settings.max_upload_bytes)  # as a form spells them
        document = typed_document(fields.get("title", ""), fields.get("text", ""))
        return _upload_started(site, document, session_of(request).key)

    @app.get("/knowledge/uploads/{name}")
    async def events(request: Request, name: str) -> Response:
        live = site.lives.find(name, owner=session_of(request).key)
        return stream(request, site.lives, live, UploadView(live.about["name"]))

    @app.post("/knowledge/delete")
    async def delete(request: Request) -> Response:
        document_id = (await form(request)).get("document_id", "")
        path, key = f"/v1/knowledge/{segment(document_id)}", session_of(request).key
        await site.router.delete(path, DeleteKnowledgeResponse, key=key)
        return fragment("knowledge/deleted.html", document_id=document_id)


def _upload_started(site: Site, document: Mapping[str, str], key: str) -> Response:
    name = document["title"]
    live = site.lives.begin(
        partial(_upload_events, site, document, key), owner=key, about={"name": name, "kind": "upload"}
    )
    return fragment("knowledge/upload.html", live=live, **UploadView(name).shown)


def read_document(name: str, raw: bytes) -> Mapping[str, str]:
    """Return the document in a file; the file name identifies it, so that a new version replaces an old one.

    Raises:
        BadFile: The file is empty, or is not text.

    Example:
        >>> read_document("notes.md", b"The fjord is deep.")
        {'document_id': 'notes.md', 'title': 'notes.md', 'text': 'The fjord is deep.'}
    """
    short = PurePosixPath(name.replace("\\", "/")).name.strip()
    if not short:
        raise BadFile("The file has no name.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile(f"{short} is not UTF-8 text. Save it as plain text or Markdown first.") from None
    if "\x00" in text:
        raise BadFile(f"{short} is a binary file. Save it as plain text or Markdown first.")
    if not text.strip():
        raise BadFile(f"{short} is empty.")
    return {"document_id": short, "title": short, "text": text}


def typed_document(title: str, text: str) -> Mapping[str, str]:
    """Return the document in a form; the default title is its first line.

    Raises:
        Unusable: The text is empty.
    """
    if not text.strip():
        raise InvalidInput("Enter or paste a text.")
    return {"title": title.strip() or text.strip().splitlines()[0][:80], "text": text}


async def _body(request: Request, most: int) -> bytes:
    """Return the body of a request.

    Raises:
        BadFile: The body is longer than `most` bytes; the rest is not read.
    """
    held = bytearray()
    async for chunk in request.stream():
        held += chunk
        if len(held) > most:
            raise BadFile(f"The file is larger than {most / 2**20:.1f} MiB. Split it, or use `metacog knowledge add`.")
    return bytes(held)


async def _upload_events(site: Site, document: Mapping[str, str], key: str) -> AsyncGenerator[Event, None]:
    body = {"documents": [document]}
    async for event in site.router.stream(
        "/v1/knowledge", body, AddKnowledgeResponse, key=key, timeout_s=ADD_TIMEOUT_S
    ):
        yield event
