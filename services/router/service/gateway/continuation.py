"""A response continues an earlier one of the same key, whose conversation is kept with its run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kernel.errors import MalformedRequest, RunNotFound
from services.router.service.gateway.response_request import ID_PREFIX, ResponseRequest
from services.router.service.runs.values import CallKind, Run

KEEP_SETTING = "METACOG_ROUTER_KEEP_CONTENTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuedChat:
    """A continued chat is a chat request, with the place of its first message that is kept.

    Attributes:
        body: The request.
        kept_from: Place of the first message that is kept; None: none is.
    """

    body: dict[str, Any]
    kept_from: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The continuation finds what earlier responses of a key were.

    Attributes:
        find: Finds a run of a key.
        keeps: Whether contents are stored.
    """

    find: Callable[..., Awaitable[Run]]
    keeps: bool

    def is_kept(self, request: ResponseRequest) -> bool:
        """Return whether the response to a request can be continued."""
        return self.keeps and request.store is not False

    async def chat(self, request: ResponseRequest, key_name: str) -> ContinuedChat:
        """Return the chat that a request asks for, with the conversation that it continues.

        Raises:
            MalformedRequest: Where contents are not stored, and the request needs that they are.
            RunNotFound: When there is no earlier response that can be continued; names `previous_response_id`.
            DatabaseUnavailable: When it cannot be looked up.
        """
        wanted = "previous_response_id" if request.previous else "store" if request.store else ""
        if wanted and not self.keeps:
            message = f"{wanted}: {KEEP_SETTING} is false here, so that no conversation is stored; send all of it"
            raise MalformedRequest(message, field=wanted, setting=KEEP_SETTING)
        earlier = await self._earlier(request.previous, key_name) if request.previous else []
        system = [{"role": "system", "content": request.instructions}] if request.instructions else []
        messages = [*system, *earlier, *request.messages]
        kept_from = len(system) if self.is_kept(request) else None
        return ContinuedChat(body={**request.fields, "messages": messages}, kept_from=kept_from)

    async def _earlier(self, run_id: str, key_name: str) -> Sequence[dict[str, Any]]:
        try:
            run = await self.find(run_id, key_name=key_name)
        except RunNotFound:
            run = None
        if run is None or run.call is not CallKind.RESPONSE or not run.continuation:
            raise RunNotFound(
                f"previous_response_id: there is no response {ID_PREFIX}{run_id} of this key that can be continued",
                field="previous_response_id",
                run_id=run_id,
            )
        messages: Sequence[dict[str, Any]] = orjson.loads(run.continuation)
        return messages
