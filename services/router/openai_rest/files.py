"""This module serves OpenAI's files: `/v1/files`."""

from contextlib import aclosing, suppress
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from chassis.serving.multipart import form_pieces
from chassis.serving.rest import Application, Json, caller, query, query_parameters
from chassis.serving.sse import ClosingStream
from kernel.errors import MetacogError
from services.router.openai_rest import batch_shapes
from services.router.service.batches.files import Files
from services.router.service.batches.values import ListFilesRequest, StoredFile
from services.router.service.gateway.chat_reply import error_body

PATH = "/v1/files"


def add_paths(app: Application, files: Files) -> None:
    """Put files on `app`."""
    app.state.shapes |= dict.fromkeys((PATH, f"{PATH}/"), error_body)
    app.edge.uploads |= {("POST", PATH)}

    @app.post(PATH, openapi_extra=batch_shapes.UPLOAD_FILE)
    async def upload_file(request: Request) -> Response:
        """Upload a file of lines for a batch.

        Fails with `REQUEST_OVER_LIMIT`, `TOO_MANY_FILES` or `DATABASE_UNAVAILABLE`.
        """
        return Json(file_object(await _uploaded(request, files)))

    @app.get(PATH, openapi_extra={**batch_shapes.LIST_FILES, **query_parameters(ListFilesRequest)})
    async def list_files(request: Request) -> Response:
        """List the files of a key, newest first.

        Fails with `FILE_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        found, has_more = await files.page(query(request, ListFilesRequest), caller(request).name)
        return Json(page_of([file_object(file) for file in found], has_more=has_more))

    @app.get(PATH + "/{file_id}", openapi_extra=batch_shapes.GET_FILE)
    async def get_file(file_id: str, request: Request) -> Response:
        """Return what is known of a file.

        Fails with `FILE_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        return Json(file_object(await files.get(file_id, caller(request).name)))

    @app.get(PATH + "/{file_id}/content", openapi_extra=batch_shapes.GET_FILE_CONTENT)
    async def get_file_content(file_id: str, request: Request) -> Response:
        """Return the content of a file.

        Fails with `FILE_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        file = await files.get(file_id, caller(request).name)
        content = files.content(file)
        headers = {"content-length": str(file.size_bytes), "cache-control": "no-store"}
        return ClosingStream(content, content.aclose, media_type="application/octet-stream", headers=headers)

    @app.delete(PATH + "/{file_id}", openapi_extra=batch_shapes.DELETE_FILE)
    async def delete_file(file_id: str, request: Request) -> Response:
        """Delete a file.

        Fails with `FILE_NOT_FOUND`, `FILE_IN_USE` or `DATABASE_UNAVAILABLE`.
        """
        await files.delete(file_id, caller(request).name)
        return Json({"id": file_id, "object": "file", "deleted": True})


async def _uploaded(request: Request, files: Files) -> StoredFile:
    """Store the file of a form; an error comes after the end of the body: who still sends reads none."""
    body = request.stream()
    pieces = form_pieces(request.headers.get("content-type", ""), body)
    try:
        async with aclosing(pieces):
            return await files.upload(pieces, caller(request).name)
    except MetacogError:
        with suppress(MetacogError):
            async for _ in body:
                pass
        raise


def file_object(file: StoredFile) -> dict[str, Any]:
    """Return a file as OpenAI shows it."""
    return {
        "id": file.file_id,
        "object": "file",
        "bytes": file.size_bytes,
        "created_at": int(file.created_at.timestamp()),
        "expires_at": int(file.expires_at.timestamp()) if file.expires_at else None,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def page_of(items: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return a page of objects as OpenAI shows it."""
    ids = [item["id"] for item in items]
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more}
