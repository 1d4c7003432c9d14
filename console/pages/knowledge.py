"""Knowledge: documents are added, with progress, listed, searched, and deleted."""

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from console.errors import BadFile, Unusable, notice
from console.guard import session_of
from console.live_runs import REFUSED, STOPPED, Event
from console.live_streams import Events, stream
from console.service_client import segment
from console.site import Site, drawn, form, fragment, page, part

PAGE_SIZE = 25
HITS = 8
ADD_TIMEOUT_S = 900.0


class UploadView:
    """A document on its way, drawn whole whenever something is new."""

    def __init__(self, name: str) -> None:
        self._shown: dict[str, Any] = {"name": name, "progress": None, "added": None, "notice": None, "stopped": False}

    @property
    def shown(self) -> Mapping[str, Any]:
        """What it is drawn from."""
        return self._shown

    def take(self, events: Events) -> str:
        """Take in events, and draw how it stands."""
        fresh = False
        for name, data in events:
            fresh = True
            match name:
                case "knowledge_progress":
                    self._shown["progress"] = data
                case "knowledge_added":
                    self._shown["added"] = data
                case _ if name == REFUSED:
                    self._shown["notice"] = notice(data["error"])
                case _ if name == STOPPED:
                    self._shown["stopped"] = True
        return drawn("knowledge/upload_state.html", **self._shown) if fresh else ""


def add_paths(app: FastAPI, site: Site) -> None:
    """Put the page on `app`."""
    add_reading_paths(app, site)
    add_writing_paths(app, site)


def add_reading_paths(app: FastAPI, site: Site) -> None:
    """Put listing and searching on `app`."""
    router = site.router

    async def listed(request: Request) -> Any:  # noqa: ANN401 - a part of whatever the router tells
        asked = {name: request.query_params.get(name, "") for name in ("title_contains", "page_token")}
        return await part(router.get("/v1/knowledge", key=session_of(request).key, page_size=PAGE_SIZE, **asked))

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
            raise Unusable("Type what to search for.")
        body = {"query": query, "page_size": HITS}
        found = await part(router.post("/v1/knowledge:search", body, key=session_of(request).key))
        return fragment("knowledge/hits.html", found=found, query=query)


def add_writing_paths(app: FastAPI, site: Site) -> None:
    """Put adding and deleting on `app`."""

    @app.post("/knowledge/upload")
    async def upload(request: Request, name: str = "") -> Response:
        document = read_document(name, await _body(request, site.settings.max_upload_bytes))
        return _begun(site, document, session_of(request).key)

    @app.post("/knowledge/text")
    async def text(request: Request) -> Response:
        fields = await form(request)
        document = typed_document(fields.get("title", ""), fields.get("text", ""))
        return _begun(site, document, session_of(request).key)

    @app.get("/knowledge/uploads/{name}")
    async def events(request: Request, name: str) -> Response:
        live = site.lives.find(name, owner=session_of(request).key)
        return stream(request, site.lives, live, UploadView(live.about["name"]))

    @app.post("/knowledge/delete")
    async def delete(request: Request) -> Response:
        document_id = (await form(request)).get("document_id", "")
        await site.router.delete(f"/v1/knowledge/{segment(document_id)}", key=session_of(request).key)
        return fragment("knowledge/deleted.html", document_id=document_id)


def _begun(site: Site, document: Mapping[str, str], key: str) -> Response:
    name = document["title"]
    live = site.lives.begin(partial(_adding, site, document, key), owner=key, about={"name": name, "kind": "upload"})
    return fragment("knowledge/upload.html", live=live, **UploadView(name).shown)


def read_document(name: str, raw: bytes) -> Mapping[str, str]:
    """The document in a file; its name is its identifier, so that a newer version takes the place of an older one.

    Raises:
        BadFile: When it is empty, or no text.

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
        raise BadFile(f"{short} is not a text in UTF-8. Save it as plain text or Markdown first.") from None
    if "\x00" in text:
        raise BadFile(f"{short} is a binary file. Save it as plain text or Markdown first.")
    if not text.strip():
        raise BadFile(f"{short} is empty.")
    return {"document_id": short, "title": short, "text": text}


def typed_document(title: str, text: str) -> Mapping[str, str]:
    """The document in a form; it is named after its text.

    Raises:
        Unusable: Without a text.
    """
    if not text.strip():
        raise Unusable("Type or paste a text.")
    return {"title": title.strip() or text.strip().splitlines()[0][:80], "text": text}


async def _body(request: Request, most: int) -> bytes:
    """The request's body.

    Raises:
        BadFile: When it is longer than `most` bytes; the rest of it is not read.
    """
    held = bytearray()
    async for chunk in request.stream():
        held += chunk
        if len(held) > most:
            raise BadFile(f"The file is larger than {most / 2**20:.1f} MiB. Split it, or use `metacog knowledge add`.")
    return bytes(held)


async def _adding(site: Site, document: Mapping[str, str], key: str) -> AsyncGenerator[Event, None]:
    body = {"documents": [document]}
    async for event in site.router.stream("/v1/knowledge", body, key=key, timeout_s=ADD_TIMEOUT_S):
        yield event
