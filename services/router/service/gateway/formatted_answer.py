"""A deliberation ends in a last call that writes its answer in the client's `response_format` (papers.md 5.7)."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

from inference import BackendModelClients, Spend, WorkKind, text_of
from kernel.policy import VOTING, Strategy
from services.router import prompts
from services.router.service.answering.strategy_task import AnswerStrategy, StrategyEvent, StrategyResult, StrategyTask
from services.router.service.answering.values import AnswerToken, PassedThrough
from services.router.service.gateway.chat_request import DELIBERATIONS, ChatRequest
from services.router.service.gateway.reply_votes import ReplyVotes, read_reply
from services.router.service.gateway.whole_replies import chunks_of, first_choice

# Account of the last call.
FORMAT = "format"
# Why an answer that does not follow the client's format is less than what was asked for.
NOT_IN_FORMAT = "NOT_IN_FORMAT"


class FormattedAnswer:
    """This strategy is another one, whose answer is written anew in the client's format.

    Args:
        strategy: The strategy that answers in text.
        models: The models, of which the default one writes.
        chat: The chat request, whose format it is.
    """

    def __init__(self, strategy: AnswerStrategy, models: BackendModelClients, chat: ChatRequest) -> None:
        self._strategy = strategy
        self._models = models
        self._chat = chat

    async def __call__(self, task: StrategyTask, spend: Spend) -> AsyncGenerator[StrategyEvent, None]:
        """Yield the strategy's events, then the reply in the client's format and the result.

        An answer that the strategy does not have is not written.

        Raises:
            MetacogError: As the strategy, or as the last call.
        """
        found: StrategyResult | None = None
        async with aclosing(self._strategy(replace(task, has_last_call=True), spend)) as events:
            async for event in events:
                if isinstance(event, StrategyResult):
                    found = event
                elif not isinstance(event, AnswerToken):
                    yield event
        assert found is not None
        if not found.text.strip():
            yield found
            return
        backend = self._models.current().default
        prompt = prompts.formatted(answer=found.text)
        body = {
            **self._chat.body,
            "model": backend.config.model,
            "messages": [*self._chat.body["messages"], {"role": "user", "content": prompt.text}],
            "stream": False,
        }
        body.pop("stream_options", None)
        reply = await backend.forward(body, spend, FORMAT, work=WorkKind.STAGE)
        for piece in chunks_of(reply.document) if self._chat.stream else [reply.document]:
            yield PassedThrough(document=piece)
        read, choice = read_reply(reply.document, self._chat, task), first_choice(reply.document)
        problems = [f"{NOT_IN_FORMAT}: {read.problem}"] if read.problem else []
        yield replace(
            found,
            text=read.text,
            finish_reason=text_of(choice.get("finish_reason")) or found.finish_reason,
            degraded_reasons=[*found.degraded_reasons, *problems],
            budget_exhausted=found.budget_exhausted or reply.cut,
        )


def strategies_in_format(
    chat: ChatRequest, models: BackendModelClients, strategies: Mapping[Strategy, AnswerStrategy]
) -> Mapping[Strategy, AnswerStrategy]:
    """Return the strategies that answer a chat in the client's own format.

    Args:
        chat: The chat request.
        models: The models.
        strategies: All strategies, as they answer in text.
    """
    if chat.keeps_format:
        return dict.fromkeys(VOTING, ReplyVotes(models, chat))
    if chat.json_schema is None or chat.request.strategy == Strategy.SYSTEM_ONE:
        return {}
    return {
        name: FormattedAnswer(strategy, models, chat) for name, strategy in strategies.items() if name in DELIBERATIONS
    }
