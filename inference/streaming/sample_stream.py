"""A sample that is read while it is being generated."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from inference.accounting.stream_cost import StreamMeter
from inference.http import event_parser
from inference.http.open_stream import OpenStream
from inference.json_fields import document, mapping, mappings, text
from inference.sampling.reasoning import Parts, Splitter, parted, reasoning_field
from inference.sampling.replies import token_logprobs
from inference.sampling.sampler import as_asked
from inference.values import Call, Completion, CompletionSample, Delta, TokenLogprob
from kernel.envelope import StageUsage


class SampleStream:
    """An async context that is iterated for its deltas; `completion` is there when the iteration has ended.

    Leaving the context early aborts the generation, and books what had been seen of it. Tool calls are not assembled.

    Args:
        call: What is drawn.
        opened: The reply.
        meter: What it costs.
    """

    def __init__(self, call: Call, opened: OpenStream, meter: StreamMeter) -> None:
        self._call = call
        self._opened = opened
        self._meter = meter
        self._splitter = Splitter()
        self._content = ""
        self._reasoning = ""
        self._logprobs: list[TokenLogprob] | None = None
        self._model = ""
        self._finish_reason: str | None = None
        self._completion: Completion | None = None
        self._deltas = self._read()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(error)

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self._deltas

    @property
    def completion(self) -> Completion:
        """The whole sample and what it cost.

        Raises:
            RuntimeError: When the stream was not read to its end.
        """
        if self._completion is None:
            raise RuntimeError("the completion is there only when the stream has been read to its end")
        return self._completion

    @property
    def usage(self) -> StageUsage:
        """What has been seen so far; once closed, ask the `completion`."""
        return self._meter.usage

    async def aclose(self, error: BaseException | None = None) -> None:
        """Give back what is held; if the stream has not ended, abort it. `error` is why, for the observer."""
        try:
            await self._deltas.aclose()
            await self._opened.aclose()
        finally:
            self._meter.close(error)

    async def _read(self) -> AsyncGenerator[Delta, None]:
        async for event in self._opened.events():
            if event.data is not None and event.data != event_parser.DONE:
                for delta in self._deltas_of(document(event.data)):
                    yield delta
        if self._finish_reason is None:
            raise self._opened.broken("it ended before the sample did")
        rest = self._splitter.finish()
        yield Delta(text=rest.text, reasoning=rest.reasoning, finish_reason=self._finish_reason)
        self._completion = self._completed()

    def _deltas_of(self, chunk: Mapping[str, object]) -> list[Delta]:
        self._model = text(chunk.get("model")) or self._model
        self._meter.tally.usage_in(chunk)
        found = []
        for choice in mappings(chunk.get("choices"))[:1]:
            parts = self._parts(choice)
            self._finish_reason = text(choice.get("finish_reason")) or self._finish_reason
            if parts.text or parts.reasoning:
                found.append(Delta(text=parts.text, reasoning=parts.reasoning))
        return found

    def _parts(self, choice: Mapping[str, object]) -> Parts:
        """What `choice` adds, as far as it is known to be reasoning or answer."""
        delta = mapping(choice.get("delta"))
        content, reasoning = text(delta.get("content")), reasoning_field(delta)
        if content or reasoning:
            self._meter.tally.piece()
        self._content += content
        self._reasoning += reasoning
        logprobs = token_logprobs(choice.get("logprobs"))
        if logprobs is not None:
            self._logprobs = self._logprobs or []
            self._logprobs.extend(logprobs)
        parts = self._splitter.feed(content)
        return Parts(reasoning=reasoning + parts.reasoning, text=parts.text)

    def _completed(self) -> Completion:
        cost = self._meter.settle()
        parts = Parts(reasoning=self._reasoning, text=self._content) if self._reasoning else parted(self._content)
        sample = CompletionSample(
            text=parts.text,
            reasoning=parts.reasoning,
            finish_reason=self._finish_reason or "stop",
            tokens=cost.completion_tokens,
            logprobs=None if self._logprobs is None else tuple(self._logprobs),
        )
        return Completion(
            samples=(as_asked(sample, self._call),), usage=cost, model=self._model, cut=self._meter.account.cut
        )
