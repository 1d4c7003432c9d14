"""This module serves OpenAI's batches: `/v1/batches`."""

from typing import Any

from fastapi import Request
from fastapi.responses import Response

from chassis.serving.rest import Application, Json, caller, query, query_parameters
from chassis.serving.wire import body_of_json
from services.router.core.batch_states import BatchStatus
from services.router.openai_rest import batch_shapes
from services.router.openai_rest.files import page_of
from services.router.service.batches.batches import WINDOW, Batches
from services.router.service.batches.values import ListBatchesRequest, RequestBatch
from services.router.service.gateway.chat_reply import error_body

PATH = "/v1/batches"


def add_paths(app: Application, batches: Batches) -> None:
    """Put batches on `app`."""
    app.state.shapes |= dict.fromkeys((PATH, f"{PATH}/"), error_body)

    @app.post(PATH, openapi_extra=batch_shapes.CREATE_BATCH)
    async def create_batch(request: Request) -> Response:
        """Begin to answer the lines of an uploaded file.

        Fails with `FILE_NOT_FOUND`, `TOO_MANY_BATCHES` or `DATABASE_UNAVAILABLE`.
        """
        body = body_of_json(await request.body())
        return Json(batch_object(await batches.create(body, caller(request).name)))

    @app.get(PATH, openapi_extra={**batch_shapes.LIST_BATCHES, **query_parameters(ListBatchesRequest)})
    async def list_batches(request: Request) -> Response:
        """List the batches of a key, newest first.

        Fails with `BATCH_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        found, has_more = await batches.page(query(request, ListBatchesRequest), caller(request).name)
        return Json(page_of([batch_object(batch) for batch in found], has_more=has_more))

    @app.get(PATH + "/{batch_id}", openapi_extra=batch_shapes.GET_BATCH)
    async def get_batch(batch_id: str, request: Request) -> Response:
        """Return a batch.

        Fails with `BATCH_NOT_FOUND` or `DATABASE_UNAVAILABLE`.
        """
        return Json(batch_object(await batches.get(batch_id, caller(request).name)))

    @app.post(PATH + "/{batch_id}/cancel", openapi_extra=batch_shapes.CANCEL_BATCH)
    async def cancel_batch(batch_id: str, request: Request) -> Response:
        """Cancel a batch; what is being answered is answered to its end, and the results so far are kept.

        Fails with `BATCH_NOT_FOUND`, `BATCH_ENDED` or `DATABASE_UNAVAILABLE`.
        """
        return Json(batch_object(await batches.cancel(batch_id, caller(request).name)))


def batch_object(batch: RequestBatch) -> dict[str, Any]:
    """Return a batch as OpenAI shows it; its files of results are named once it has ended."""
    times = {name: None if time is None else int(time.timestamp()) for name, time in batch.times.items()}
    never = {f"{status}_at": None for status in BatchStatus if status is not BatchStatus.VALIDATING}
    return {
        "id": batch.batch_id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "errors": None if batch.errors is None else {"object": "list", "data": batch.errors},
        "input_file_id": batch.input_file_id,
        "completion_window": WINDOW,
        "status": batch.status,
        "output_file_id": batch.output_file_id if batch.has_ended else None,
        "error_file_id": batch.error_file_id if batch.has_ended else None,
        **never,
        **times,
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
        "metadata": batch.labels,
    }
