"""Batches are created, shown, listed and cancelled by the key that they belong to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from chassis.ids import new_id
from chassis.serving.wire import from_plain
from kernel.errors import MalformedRequest
from services.router.core.batch_states import BatchStatus
from services.router.errors import FileNotFound
from services.router.service.batches.files import FileStore, not_kept
from services.router.service.batches.values import BATCH, INPUT, CreateBatchRequest, ListBatchesRequest, RequestBatch

# The one completion window that there is.
WINDOW, WINDOW_TIME = "24h", timedelta(hours=24)


class BatchStore(Protocol):
    """This store holds batches. Every method may raise `DatabaseUnavailable`."""

    async def create(self, batch: RequestBatch, most: int, most_active: int) -> None:
        """Store a batch, beyond `most` of a key in place of its oldest ended one; raises `TooManyBatches`."""

    async def find(self, batch_id: str, key_name: str) -> RequestBatch:
        """Return a batch of a key; raises `BatchNotFound`."""

    async def page(self, request: ListBatchesRequest, key_name: str) -> Sequence[RequestBatch]:
        """Return the batches of a page, newest first, and one more if there is one; raises `BatchNotFound`."""

    async def cancel(self, batch_id: str, key_name: str) -> RequestBatch:
        """Begin to cancel a batch of a key; raises `BatchNotFound`, or `BatchEnded`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Batches of callers.

    Attributes:
        store: Where they are.
        files: Where their input files are.
        endpoints: Paths that answer lines.
        per_key: Batches of one API key [count]; beyond it the oldest that has ended goes.
        active_per_key: Those of them that have not ended [count].
        keeps: Whether contents are stored.
        now: Wall clock.
        on_change: Reports that there is a step to take.
    """

    store: BatchStore
    files: FileStore
    endpoints: Sequence[str]
    per_key: int
    active_per_key: int
    keeps: bool
    now: Callable[[], datetime]
    on_change: Callable[[], None] = lambda: None

    async def create(self, body: object, key_name: str) -> RequestBatch:
        """Begin a batch.

        Raises:
            MalformedRequest: For a field that is wrong, or where contents are not stored.
            FileNotFound: When there is no such input file.
            TooManyBatches: When the key has as many batches that have not ended as it may.
            DatabaseUnavailable: When the database is away.
        """
        if not self.keeps:
            raise not_kept("input_file_id")
        request = self._request(body)
        try:
            file = await self.files.find(request.input_file_id, key_name)
        except FileNotFound as error:
            raise FileNotFound(error.message, **{**error.metadata, "field": "input_file_id"}) from error
        if file.purpose != INPUT:
            message = f"input_file_id: {file.file_id!r} has the purpose {file.purpose}, and must have {INPUT}"
            raise MalformedRequest(message, field="input_file_id")
        now = self.now()
        times: Mapping[str, datetime | None] = {"created_at": now, "expires_at": now + WINDOW_TIME}
        expiry = request.output_expires_after
        batch = RequestBatch(
            batch_id=f"{BATCH}{new_id()}",
            key_name=key_name,
            endpoint=request.endpoint,
            input_file_id=file.file_id,
            output_file_id=None,
            error_file_id=None,
            labels=request.metadata,
            errors=None,
            status=BatchStatus.VALIDATING,
            times=times,
            total=0,
            completed=0,
            failed=0,
            output_expires_s=expiry.seconds if expiry else None,
        )
        await self.store.create(batch, self.per_key, self.active_per_key)
        self.on_change()
        return batch

    async def get(self, batch_id: str, key_name: str) -> RequestBatch:
        """Return a batch; raises `BatchNotFound`."""
        return await self.store.find(batch_id, key_name)

    async def page(self, request: ListBatchesRequest, key_name: str) -> tuple[Sequence[RequestBatch], bool]:
        """Return a page of batches, and whether there are more; raises `BatchNotFound` for an unknown `after`."""
        found = await self.store.page(request, key_name)
        return found[: request.limit], len(found) > request.limit

    async def cancel(self, batch_id: str, key_name: str) -> RequestBatch:
        """Begin to cancel a batch; what is being answered is answered to its end.

        Raises:
            BatchNotFound: When there is none.
            BatchEnded: When it has ended.
            DatabaseUnavailable: When the database is away.
        """
        batch = await self.store.cancel(batch_id, key_name)
        self.on_change()
        return batch

    def _request(self, body: object) -> CreateBatchRequest:
        if not isinstance(body, dict):
            raise MalformedRequest("the body must be a JSON object", field="body")
        request = from_plain({name: item for name, item in body.items() if item is not None}, CreateBatchRequest)
        if request.completion_window != WINDOW:
            message = f"completion_window: only {WINDOW!r} is served, not {request.completion_window[:100]!r}"
            raise MalformedRequest(message, field="completion_window")
        if request.endpoint not in self.endpoints:
            message = f"endpoint: it must be one of {', '.join(self.endpoints)}, not {request.endpoint[:100]!r}"
            raise MalformedRequest(message, field="endpoint")
        return request
