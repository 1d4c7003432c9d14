"""A chat may ask for passages of the stored documents, which then stand before its messages as fenced sources."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chassis.prompts import shortened
from kernel.conversation import latest_texts, turns_of_chat
from kernel.errors import MetacogError
from kernel.values import value
from services.router import prompts
from services.router.service.gateway.chat_request import ChatRequest
from services.router.service.knowledge.values import (
    KnowledgeHit,
    KnowledgeKind,
    SearchKnowledgeRequest,
    SearchKnowledgeResponse,
)
from services.router.service.runs.values import Citation

# Length of a passage and of its title in the prompt [tokens, about], and of the text that is looked up [characters].
PASSAGE_TOKENS, TITLE_TOKENS, QUERY_CHARACTERS = 512, 32, 4000
# Time that looking up may take [s].
SEARCH_S = 5.0

Search = Callable[..., Awaitable[SearchKnowledgeResponse]]


@value
class Cited:
    """This value is what was found for a chat.

    Attributes:
        citations: The passages, nearest first; None where they could not be looked up.
        reason: Why they could not, as `CODE: message`; empty where they could.
    """

    citations: Sequence[Citation] | None
    reason: str = ""


async def with_sources(chat: ChatRequest, search: Search, *, key_name: str, keeps_first: bool = False) -> ChatRequest:
    """Return a chat with the passages that it asks for, or as it is where it asks for none.

    They are looked up by the last turns of the conversation. Where they cannot be, the chat is answered without them,
    and the answer says why.

    Args:
        chat: The chat.
        search: Searches the knowledge base.
        key_name: Name of the API key of the chat.
        keeps_first: Whether its first message is kept for a continuation, so that no passage may be added to it.
    """
    options = chat.options.knowledge
    if options is None:
        return chat
    found = await _found(chat, options.cite, search, key_name)
    origin = replace(chat.origin, citations=found.citations, citations_unknown_reason=found.reason)
    cited = replace(chat, origin=origin)
    return _with_messages(cited, found.citations, keeps_first=keeps_first) if found.citations else cited


async def _found(chat: ChatRequest, cite: int, search: Search, key_name: str) -> Cited:
    texts = latest_texts(chat.request.messages, longest=QUERY_CHARACTERS)
    if not texts:
        return Cited(citations=())
    request = SearchKnowledgeRequest(query=texts[-1], page_size=cite, kind=KnowledgeKind.DOCUMENT)
    within_s = _seconds(chat)
    try:
        async with asyncio.timeout(within_s):
            page = await search(request, key_name=key_name, timeout_s=within_s)
    except TimeoutError:
        return Cited(citations=None, reason=f"DEADLINE_EXCEEDED: the search took longer than {within_s:.3g} s")
    except MetacogError as error:
        return Cited(citations=None, reason=f"{error.reason}: {error.message}")
    return Cited(citations=[_citation(number, hit) for number, hit in enumerate(page.hits, start=1)])


def _citation(number: int, hit: KnowledgeHit) -> Citation:
    return Citation(
        number=number,
        document_id=hit.document_id,
        title=shortened(hit.title, TITLE_TOKENS)[0],
        chunk=hit.chunk,
        passage=shortened(hit.text, PASSAGE_TOKENS)[0],
    )


def _seconds(chat: ChatRequest) -> float:
    """Return the time that looking up may take [s]: at most a quarter of what the chat states."""
    envelope = chat.options.envelope
    stated_ms = envelope.timeout_ms if envelope is not None else None
    return SEARCH_S if stated_ms is None else min(SEARCH_S, stated_ms / 4000)


def _with_messages(chat: ChatRequest, citations: Sequence[Citation], *, keeps_first: bool) -> ChatRequest:
    """Return the chat with the sources in its system message: its own one, or a new one before the others.

    A message that is kept stays as it is: a later turn would send the passages again, also of deleted documents.
    """
    text = prompts.sources(passages=[_passage(one) for one in citations]).text
    first, *others = chat.body["messages"]
    joined = _takes_text(first) and not keeps_first
    messages = [_with_text(first, text), *others] if joined else [_system(text), first, *others]
    return replace(
        chat,
        body={**chat.body, "messages": messages},
        request=replace(chat.request, messages=turns_of_chat(messages)),
        origin=replace(chat.origin, chat=messages),
    )


def _passage(one: Citation) -> str:
    return f"{one.title}\n\n{one.passage}" if one.title.strip() else one.passage


def _takes_text(message: Mapping[str, Any]) -> bool:
    return message["role"] in ("system", "developer") and isinstance(message.get("content"), str)


def _with_text(message: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    return {**message, "content": f"{message['content']}\n\n{text}"}


def _system(text: str) -> Mapping[str, Any]:
    return {"role": "system", "content": text}
