"""The gateway begins the run of a chat request, whatever API the request came by."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from inference import BackendModelClients
from services.router.service.answering.answer import answer
from services.router.service.answering.run_in_progress import AnswerContext
from services.router.service.answering.values import CostGuard
from services.router.service.gateway.chat_reply import whole_completion
from services.router.service.gateway.chat_request import ChatRequest, guarded, model_name, parsed_request
from services.router.service.gateway.citations import Search, with_sources
from services.router.service.gateway.formatted_answer import strategies_in_format
from services.router.service.gateway.offered_models import OfferedModels
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.gateway.passthrough import Passthrough
from services.router.service.runs.values import CallKind, Run

REASON = "x-metacog-reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedChat:
    """A started chat is a request with the events of its run."""

    request: ChatRequest
    events: AsyncGenerator[Any, None]

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the answer: why System 1 gives it, where another strategy was asked for."""
        return {REASON: self.request.origin.reason} if self.request.replaced else {}

    def completion(self, run: Run, document: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return a run as a chat completion with its explanation; `document` is a model server's own reply."""
        return whole_completion(document, run, self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatGateway:
    """The gateway holds what chat requests need beside themselves.

    Attributes:
        context: What answering needs.
        models: The models of the process.
        offered: The models that are offered by name.
        aliases: Model names that stand for others.
        media_hosts: Hosts from which the model server may fetch what messages name by URL.
        passed: The fields that a chat request may have.
        search: Searches the passages that a chat may ask for.
        at_most: The cost guard of requests that leave the strategy open and promise nothing; None: there is none.
    """

    context: AnswerContext
    models: BackendModelClients
    offered: OfferedModels
    aliases: Mapping[str, str]
    media_hosts: Sequence[str]
    passed: PassedFields
    search: Search
    at_most: CostGuard | None = None

    async def start(
        self,
        body: object,
        key_name: str,
        call: CallKind = CallKind.CHAT,
        *,
        kept_from: int | None = None,
        kept_request: str = "",
    ) -> StartedChat:
        """Return the run of the chat request in `body`, which begins when its events are read.

        Args:
            body: The request.
            key_name: Name of the API key of the request.
            call: What its client called.
            kept_from: Place of the first message that is kept for a continuation; None: none is.
            kept_request: What is kept of the client's request beside it, as JSON.

        Raises:
            MetacogError: As `parsed_request`.
            Overloaded: When there is no place for the search of its sources.
        """
        parsed = parsed_request(
            body,
            self.aliases,
            models=await self.offered.answering(model_name(body)),
            key_name=key_name,
            media_hosts=self.media_hosts,
            passed=self.passed,
        )
        searching = nullcontext() if parsed.options.knowledge is None else self.context.admission.request()
        with searching:
            chat = await with_sources(
                guarded(parsed, self.at_most), self.search, key_name=key_name, keeps_first=kept_from == 0
            )
        if kept_from is not None:
            kept_from += len(chat.body["messages"]) - len(parsed.body["messages"])
        kept: dict[str, Any] = {"call": call, "kept_from": kept_from, "kept_request": kept_request}
        origin = chat.origin if call is CallKind.CHAT else replace(chat.origin, **kept)
        system_one = Passthrough(self.models, chat)
        others = strategies_in_format(chat, self.models, self.context.strategies)
        context = self.context.with_system_one(system_one, system_one.drafter, others)
        return StartedChat(request=chat, events=answer(chat.request, context=context, origin=origin))
